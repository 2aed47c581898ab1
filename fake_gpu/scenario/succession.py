"""Two successive configurations without times: the old one until an instant, then the new one.

Put here: joining two configurations to one scenario with exact times.
Not here: reading them (`design_config`), or comparing the past (`fake_gpu.scenario_change`).

A running node keeps its cards, and its name is not used again. Nodes and pods may be added or
removed, and labels and the use of cards may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fake_gpu.scenario.errors import BadScenario, Problem
from fake_gpu.scenario.spec import ClusterSpec, Scenario
from fake_gpu.scenario.spec_hardware import NodeChangeSpec, NodeSpec
from fake_gpu.scenario.spec_work import NamespaceSpec, PodSpec, WorkloadSpec


def join_scenarios(old: Scenario, new: Scenario, at: int) -> Scenario:
    """`old` before `at`, and `new` from then on."""
    before, after = _until(old.clusters[0], at), new.clusters[0]
    workloads = _workloads(before.workloads, after.workloads, at)
    known = {each.name for each in before.namespaces}
    known |= {workload.namespace for workload in before.workloads}
    fresh = sorted({workload.namespace for workload in after.workloads} - known)
    cluster = replace(
        before,
        nodes=tuple(_nodes(new.name, before.nodes, after.nodes, at)),
        namespaces=(*before.namespaces, *(NamespaceSpec(name, created=at) for name in fresh)),
        workloads=tuple(workloads),
    )
    return replace(old, name=new.name, clusters=(cluster,))


def _until(cluster: ClusterSpec, at: int) -> ClusterSpec:
    """Without the changes from `at` on, which were not visible yet."""
    return replace(
        cluster,
        nodes=tuple(
            replace(
                node,
                leaves=None if _is_from(node.leaves, at) else node.leaves,
                changes=tuple(change for change in node.changes if change.at < at),
            )
            for node in cluster.nodes
            if not _is_from(node.joins, at)
        ),
        namespaces=tuple(each for each in cluster.namespaces if not _is_from(each.created, at)),
        workloads=tuple(
            replace(workload, pods=(_pod_until(_pod(workload), at),))
            for workload in cluster.workloads
            if _pod(workload).created < at
        ),
    )


def _pod_until(pod: PodSpec, at: int) -> PodSpec:
    loads = tuple(load for load in pod.card_loads if not _is_from(load.from_, at))
    if _is_from(pod.deleted, at):
        return replace(pod, card_loads=loads, ended=None, deleted=None, gone=None)
    return replace(pod, card_loads=loads)


def _is_from(moment: int | None, at: int) -> bool:
    return moment is not None and moment >= at


def _pod(workload: WorkloadSpec) -> PodSpec:
    """In these configurations every workload is one pod."""
    return workload.pods[0]


# --- nodes ----------------------------------------------------------------------------------------


def _nodes(
    source: str, before: Sequence[NodeSpec], after: Sequence[NodeSpec], at: int
) -> Iterator[NodeSpec]:
    wanted = {node.name: node for node in after}
    for node in before:
        follower = wanted.pop(node.name, None)
        if follower is None:
            yield node if node.leaves is not None else replace(node, leaves=at)
            continue
        if node.leaves is not None or _hardware(node) != _hardware(follower):
            seen = "was taken away before" if node.leaves is not None else "has other cards"
            remedy = "give it a name that no node had, or start the fleet again"
            raise BadScenario(source, [Problem(0, f"nodes {node.name}", seen, remedy)])
        yield _relabelled(node, follower, at)
    yield from (replace(node, joins=at) for node in wanted.values())


def _hardware(node: NodeSpec) -> NodeSpec:
    return replace(node, labels={}, joins=None, leaves=None, changes=())


def _relabelled(node: NodeSpec, follower: NodeSpec, at: int) -> NodeSpec:
    labels: dict[str, str | None] = {**node.labels}
    for change in node.changes:
        labels |= change.labels
    changed = {name: follower.labels.get(name) for name in {**labels, **follower.labels}}
    different = {name: text for name, text in changed.items() if labels.get(name) != text}
    if not different:
        return node
    return replace(node, changes=(*node.changes, NodeChangeSpec(at, labels=different)))


# --- pods -----------------------------------------------------------------------------------------


def _workloads(
    before: Sequence[WorkloadSpec], after: Sequence[WorkloadSpec], at: int
) -> Iterator[WorkloadSpec]:
    wanted = {_place(workload): workload for workload in after}
    for workload in before:
        pod = _pod(workload)
        if pod.deleted is not None:
            yield workload
            continue
        follower = wanted.pop(_place(workload), None)
        if follower is None:
            yield replace(workload, pods=(replace(pod, ended=at, deleted=at, gone=at),))
            continue
        loads = {load.card: load for load in pod.card_loads}  # of several, the latest
        more = [
            replace(load, from_=at)
            for load in _pod(follower).card_loads
            if load != replace(loads[load.card], from_=None)
        ]
        yield replace(workload, pods=(replace(pod, card_loads=(*pod.card_loads, *more)),))
    for workload in wanted.values():
        pod = replace(_pod(workload), created=at, started=at)
        yield replace(workload, pods=(pod,))


def _place(workload: WorkloadSpec) -> tuple[object, ...]:
    """The identity of a pod: its names, its containers, its node and its cards."""
    pod = _pod(workload)
    return workload.namespace, workload.name, pod.node, pod.cards, str(workload.containers)
