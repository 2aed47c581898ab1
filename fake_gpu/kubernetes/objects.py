"""One cluster's objects through time: every change, numbered as an API server numbers them.

Put here: the order of changes, resource versions, and the state at an instant.
Not here: how one document looks (`pods`, `nodes`, `namespaced`), or the wire (`server`).

Documents are made when they are read, so a history of many pods costs little until it is shown.
Times are seconds, as in `fleet.model`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import (
    BudgetLifetime,
    ClaimLifetime,
    Fault,
    NamespaceLifetime,
    Node,
    NodeState,
    PodLifetime,
    QuotaLifetime,
    SimulatedCluster,
    WorkloadLifetime,
)
from fake_gpu.kubernetes.distortion import Distortion
from fake_gpu.kubernetes.forms import Document, derived_uid
from fake_gpu.kubernetes.namespaced import (
    budget_document,
    claim_document,
    namespace_document,
    quota_document,
    workload_document,
)
from fake_gpu.kubernetes.nodes import node_document, slice_document, slice_name
from fake_gpu.kubernetes.pods import Verb, pod_document, pod_steps

# Where numbering begins: an API server is never at zero at its first query.
FIRST_RESOURCE_VERSION = 1000

# Containers of objects before their contents, if both appear at one second.
_RANKS = (
    "Namespace",
    "Node",
    "ResourceSlice",
    "ResourceQuota",
    "GpuBudget",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "Job",
    "ReplicaSet",
    "ResourceClaim",
    "Pod",
)
_LAST_RANK = len(_RANKS)

_Build = Callable[[int], Document]


@dataclass(frozen=True, slots=True)
class Change:
    """One object was added, changed or deleted; `object` is how it looked then."""

    at: int
    resource_version: int
    kind: str  # "Pod", "Node", …
    verb: Verb
    namespace: str
    name: str
    uid: str
    build: _Build
    distortion: Distortion | None = None

    @property
    def object(self) -> Document:
        return self.numbered(self.resource_version)

    def numbered(self, resource_version: int) -> Document:
        """The object with the number of another change."""
        if self.distortion is None:
            return self.build(resource_version)
        return self.distortion.apply(self.build(resource_version))

    @property
    def undistorted(self) -> Document:
        """The object before the kubelet's first write, which no watch shows."""
        return self.build(self.resource_version)


@dataclass(frozen=True, slots=True)
class Version:
    """One object as it was during `[from_at, until_at)`."""

    change: Change
    from_at: int
    until_at: int | None

    @property
    def object(self) -> Document:
        return self.change.object

    def covers(self, at: int) -> bool:
        return self.from_at <= at and (self.until_at is None or at < self.until_at)


@dataclass(frozen=True, slots=True)
class _Step:
    """A change before it is numbered."""

    at: int
    verb: Verb
    kind: str
    namespace: str
    name: str
    uid: str
    build: _Build


class ObjectHistory:
    """All changes of one cluster in the order in which an API server would have made them."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        faults: tuple[Fault, ...] = (),
        ledger: FaultLedger | None = None,
    ) -> None:
        self.cluster_id = cluster.cluster_id
        distortion = Distortion(cluster.cluster_id, faults, ledger or FaultLedger())
        self.changes: tuple[Change, ...] = tuple(_numbered(cluster, distortion))
        self._by_kind: dict[str, list[Change]] = {}
        for change in self.changes:
            self._by_kind.setdefault(change.kind, []).append(change)
        self._versions: dict[str, tuple[Version, ...]] = {}

    @property
    def kinds(self) -> list[str]:
        return sorted(self._by_kind)

    def versions(self, kind: str) -> tuple[Version, ...]:
        """Every state of every object of a kind, by its beginning."""
        if kind not in self._versions:
            self._versions[kind] = tuple(_versions(self._by_kind.get(kind, ())))
        return self._versions[kind]

    def objects_at(self, kind: str, at: int) -> list[Document]:
        """The objects of a kind at a second, in the order of their names."""
        present = [v.change for v in self.versions(kind) if v.covers(at)]
        return [change.object for change in sorted(present, key=attrgetter("namespace", "name"))]

    def resource_version_at(self, at: int) -> int:
        """The server's resource version when a second has passed.

        It grows every second, as the leases of a real server make it grow: so a bookmark also
        shows a watcher that time has passed.
        """
        if not self.changes:
            return FIRST_RESOURCE_VERSION
        count = bisect_right(self.changes, at, key=attrgetter("at"))
        return FIRST_RESOURCE_VERSION + max(0, at - self.changes[0].at) + count


def _versions(changes: Iterable[Change]) -> list[Version]:
    """Each change that leaves an object, until the next change of the same object.

    Several changes of one object at one second leave only the last of them.
    """
    versions: list[Version] = []
    current: dict[str, Change] = {}
    for change in changes:
        before = current.pop(change.uid, None)
        if before is not None and before.at < change.at:
            versions.append(Version(before, before.at, change.at))
        if change.verb != "DELETED":
            current[change.uid] = change
    versions += [Version(change, change.at, None) for change in current.values()]
    return sorted(versions, key=lambda v: (v.from_at, v.change.resource_version))


def _numbered(cluster: SimulatedCluster, distortion: Distortion) -> Iterator[Change]:
    steps = list(_steps(cluster))
    added = {(step.uid, step.at) for step in steps if step.verb == "ADDED"}
    going = {(step.uid, step.at) for step in steps if step.verb == "DELETED"} - added
    order = sorted(range(len(steps)), key=lambda position: _order(steps[position], position, going))
    first_at = steps[order[0]].at if order else 0
    for count, position in enumerate(order, start=1):
        step = steps[position]
        number = FIRST_RESOURCE_VERSION + step.at - first_at + count
        yield Change(
            step.at,
            number,
            step.kind,
            step.verb,
            step.namespace,
            step.name,
            step.uid,
            step.build,
            distortion if distortion and step.kind == "Pod" else None,
        )


def _order(step: _Step, position: int, going: set[tuple[str, int]]) -> tuple[int, bool, int, int]:
    """By time; objects that go at this second first, so that their names are free again.

    Of created objects, the containing one comes first; of deleted ones, it comes last.
    """
    rank = _RANKS.index(step.kind) if step.kind in _RANKS else _LAST_RANK
    stays = (step.uid, step.at) not in going
    return step.at, stays, rank if stays else -rank, position


def _steps(cluster: SimulatedCluster) -> Iterator[_Step]:
    for namespace in cluster.namespaces:
        yield from _namespace_steps(namespace)
    for node in cluster.nodes:
        yield from _node_steps(cluster, node)
    for quota in cluster.quotas:
        yield from _quota_steps(quota)
    for budget in cluster.budgets:
        yield from _budget_steps(budget)
    for workload in cluster.workloads:
        yield from _workload_steps(workload)
    for claim in cluster.claims:
        yield from _claim_steps(claim)
    for pod in cluster.pods:
        yield from _pod_steps(pod)


def _object_changes(
    kind: str, namespace: str, name: str, uid: str, times: Iterable[int], gone_at: int | None
) -> Iterator[tuple[int, Callable[[_Build], _Step]]]:
    """The change of each time at which an object changes; the last one deletes it."""
    for index, at in enumerate(sorted({t for t in times if gone_at is None or t < gone_at})):
        verb: Verb = "MODIFIED" if index else "ADDED"
        yield at, partial(_Step, at, verb, kind, namespace, name, uid)
    if gone_at is not None:
        yield gone_at, partial(_Step, gone_at, "DELETED", kind, namespace, name, uid)


def _namespace_steps(namespace: NamespaceLifetime) -> Iterator[_Step]:
    edits = [
        at for at, _ in namespace.relabelled if namespace.gone_at is None or at < namespace.gone_at
    ]
    times = sorted(
        {namespace.created_at, *edits, *(t for t in (namespace.terminating_at,) if t is not None)}
    )
    for at, step in _object_changes(
        "Namespace", "", namespace.name, namespace.uid, times, namespace.gone_at
    ):
        yield step(partial(namespace_document, namespace, at))


def _node_steps(cluster: SimulatedCluster, node: Node) -> Iterator[_Step]:
    states: dict[int, NodeState] = {state.from_at: state for state in node.states}
    ordered = sorted(states)
    for at, step in _object_changes("Node", "", node.name, node.uid, states, node.gone_at):
        yield step(partial(node_document, cluster, node, states[_latest(ordered, at)]))
    if not node.dra:
        return
    uid = derived_uid("slice", node.uid)
    for at, step in _object_changes(
        "ResourceSlice", "", slice_name(node), uid, states, node.gone_at
    ):
        state = states[_latest(ordered, at)]
        generation = ordered.index(state.from_at) + 1
        yield step(partial(slice_document, node, state, generation=generation))


def _latest(ordered: list[int], at: int) -> int:
    return max(t for t in ordered if t <= at)


def _quota_steps(quota: QuotaLifetime) -> Iterator[_Step]:
    changed = [at for at, _ in (*quota.hard, *quota.used)]
    times = [quota.created_at, *(t for t in changed if t > quota.created_at)]
    namespace, name = quota.namespace, quota.name
    for at, step in _object_changes(
        "ResourceQuota", namespace, name, quota.uid, times, quota.gone_at
    ):
        yield step(partial(quota_document, quota, at))


def _budget_steps(budget: BudgetLifetime) -> Iterator[_Step]:
    times = [at for at, _ in budget.amounts]
    namespace, name = budget.namespace, budget.name
    for at, step in _object_changes(
        "GpuBudget", namespace, name, budget.uid, times, budget.gone_at
    ):
        yield step(partial(budget_document, budget, at))


def _workload_steps(workload: WorkloadLifetime) -> Iterator[_Step]:
    times = [workload.created_at, *(change.at for change in workload.changes)]
    for at, step in _object_changes(
        workload.kind, workload.namespace, workload.name, workload.uid, times, workload.gone_at
    ):
        yield step(partial(workload_document, workload, at))


def _claim_steps(claim: ClaimLifetime) -> Iterator[_Step]:
    changed = [claim.allocated_at]
    for _, _, from_at, until_at in claim.reserved:
        changed += [from_at, until_at]
    times = [claim.created_at, *(t for t in changed if t is not None and t > claim.created_at)]
    namespace, name = claim.namespace, claim.name
    for at, step in _object_changes(
        "ResourceClaim", namespace, name, claim.uid, times, claim.gone_at
    ):
        yield step(partial(claim_document, claim, at))


def _pod_steps(pod: PodLifetime) -> Iterator[_Step]:
    for step in pod_steps(pod):
        yield _Step(
            step.at,
            step.verb,
            "Pod",
            pod.namespace,
            pod.name,
            pod.uid,
            partial(pod_document, pod, step),
        )
