"""A trace as a scenario of its own, or as more pods of another one.

Put here: clusters and times of a trace, and conflicts with a scenario.
Not here: pods (`trace_pods`), nodes (`trace_nodes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fake_gpu.scenario.schema import InvalidScenarioValue
from fake_gpu.scenario.spec import ClusterSpec, Scenario
from fake_gpu.scenario.trace import TraceRow, bad_trace
from fake_gpu.scenario.trace_nodes import with_nodes
from fake_gpu.scenario.trace_pods import TracedPod, pods_of, workloads_of

HOUR = 3600


def scenario_of_trace(rows: Sequence[TraceRow], name: str, source: str = "") -> Scenario:
    """A scenario of its own: the clusters, and as many nodes as the pods need."""
    source = source or name
    clusters = []
    for cluster, mine in _by_cluster(rows, "traced", source).items():
        nodes, placed = with_nodes(mine, source)
        clusters.append(ClusterSpec(cluster, nodes=nodes, workloads=workloads_of(placed, source)))
    first = min(rows, key=lambda row: row.created_at)
    last = max(rows, key=_last_time)
    try:
        return Scenario(
            name=name,
            from_=first.created_at // HOUR * HOUR,
            until=-(-(_last_time(last) + 1) // HOUR) * HOUR,
            clusters=tuple(clusters),
            story=f"{len(rows)} traced pods.",
        )
    except InvalidScenarioValue as error:
        seen = f"{error.seen}: it begins with line {first.line}"
        raise bad_trace(source, last.line, seen, error.remedy) from error


def _last_time(row: TraceRow) -> int:
    times = (row.created_at, row.scheduled_at, row.started_at, row.finished_at)
    return max(time for time in times if time is not None)


def with_trace(scenario: Scenario, rows: Sequence[TraceRow], source: str) -> Scenario:
    """The scenario with a trace's pods besides its own workloads."""
    known = [cluster.name for cluster in scenario.clusters]
    by_cluster = _by_cluster(rows, known[0] if known else "", source)
    clusters = []
    for cluster in scenario.clusters:
        mine = by_cluster.pop(cluster.name, [])
        _require_others(scenario, cluster, mine, source)
        more = workloads_of(mine, source)
        clusters.append(replace(cluster, workloads=(*cluster.workloads, *more)))
    for name, pods in by_cluster.items():
        listed = "clusters: " + ", ".join(known)
        raise bad_trace(source, pods[0].row.line, f"no cluster {name!r}", listed)
    return replace(scenario, clusters=tuple(clusters))


def _by_cluster(rows: Sequence[TraceRow], unnamed: str, source: str) -> dict[str, list[TracedPod]]:
    """The pods of each cluster; rows that name none are about the one given."""
    found: dict[str, list[TracedPod]] = {}
    for pod in pods_of([r if r.cluster else replace(r, cluster=unnamed) for r in rows], source):
        found.setdefault(pod.row.cluster, []).append(pod)
    return found


def _require_others(
    scenario: Scenario, cluster: ClusterSpec, pods: Sequence[TracedPod], source: str
) -> None:
    """A trace's pods and owners are none that the scenario has of its own."""
    owners = {(w.namespace, w.kind, w.name) for w in cluster.workloads if w.kind != "Pod"}
    uids = {pod.uid for c in scenario.clusters for w in c.workloads for pod in w.pods}
    for row in (pod.row for pod in pods):
        if (row.namespace, row.owner_kind, row.owner_name) in owners:
            seen = f"{row.owner_kind} {row.namespace}/{row.owner_name} is a workload, too"
            raise bad_trace(source, row.line, seen, "give the scenario's own another name")
        if row.uid and row.uid in uids:
            seen = f"the uid {row.uid!r} is one of the scenario's own pods"
            raise bad_trace(source, row.line, seen, "a UID is one pod's, for ever")
