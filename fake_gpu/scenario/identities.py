"""Names and IDs of a scenario that must be unique, and the error about a second one.

Put here: names and IDs that a scenario gives, compared with each other.
Not here: names that follow from simulating it (`fleet.names`), or rows of a trace
(`trace_pods`).

Objects of one name at different times are allowed: a workload that is deleted and created again
later, a namespace with two lifetimes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fake_gpu.scenario.errors import Problem
from fake_gpu.scenario.spec import ClusterSpec, Scenario
from fake_gpu.scenario.spec_work import WorkloadSpec

ALWAYS = -(1 << 60)
FOR_EVER = 1 << 60


@dataclass(frozen=True, slots=True)
class _Named:
    """One object: its name, its place in the file, and its time."""

    what: str
    scope: str  # the same words elsewhere are another thing
    path: str
    remedy: str
    from_at: int = ALWAYS
    until_at: int = FOR_EVER


def identity_problems(scenario: Scenario) -> list[Problem]:
    """The objects that exist twice at one time; the line is that of the second one."""
    by_name: dict[tuple[str, str], list[_Named]] = {}
    for named in _everything(scenario):
        by_name.setdefault((named.scope, named.what), []).append(named)
    return [problem for things in by_name.values() for problem in _overlaps(things)]


def _overlaps(things: list[_Named]) -> Iterator[Problem]:
    last, *others = sorted(things, key=lambda named: named.from_at)
    for named in others:
        if named.from_at < last.until_at:
            seen = f"a second {named.what}; the other is {last.path}"
            yield Problem(0, named.path, seen, named.remedy)
        last = max(last, named, key=lambda each: each.until_at)


def _everything(scenario: Scenario) -> Iterator[_Named]:
    for number, cluster in enumerate(scenario.clusters):
        path = f"clusters[{number}]"
        yield _Named(f"cluster {cluster.name!r}", "", path, "rename one of the two")
        if cluster.id:
            what = f"cluster with the id {cluster.id!r}"
            yield _Named(what, "", path, "each cluster must have a unique id")
        yield from _of_cluster(cluster, path)


def _of_cluster(cluster: ClusterSpec, path: str) -> Iterator[_Named]:
    for number, node in enumerate(cluster.nodes):
        at = f"{path}.nodes[{number}]"
        for name in node.names():
            yield _Named(f"node {name!r}", path, at, "rename one, or give it more cards")
        for card in node.card_ids:
            yield _Named(f"card {card!r}", "", at, "each card must have a unique ID")
    for number, namespace in enumerate(cluster.namespaces):
        yield _Named(
            f"namespace {namespace.name!r}",
            path,
            f"{path}.namespaces[{number}]",
            "one entry for each of its lifetimes: `created` after the other's `deleted`",
            ALWAYS if namespace.created is None else namespace.created,
            FOR_EVER if namespace.deleted is None else namespace.deleted,
        )
    for number, quota in enumerate(cluster.quotas):
        what = f"quota {quota.namespace}/{quota.name}"
        yield _Named(what, path, f"{path}.quotas[{number}]", "give it another `name`")
    for number, budget in enumerate(cluster.budgets):
        yield _Named(
            f"budget {budget.namespace}/{budget.name}",
            path,
            f"{path}.budgets[{number}]",
            "give it another `name`, or let one be `deleted` before the other is `created`",
            ALWAYS if budget.created is None else budget.created,
            FOR_EVER if budget.deleted is None else budget.deleted,
        )
    for number, workload in enumerate(cluster.workloads):
        yield from _of_workload(workload, path, f"{path}.workloads[{number}]")


def _of_workload(workload: WorkloadSpec, cluster: str, path: str) -> Iterator[_Named]:
    yield _Named(
        f"{workload.kind} {workload.namespace}/{workload.name}",
        cluster,
        path,
        "rename one, or let one be deleted (`until`) before the other is made (`from`)",
        ALWAYS if workload.from_ is None else workload.from_,
        FOR_EVER if workload.until is None else workload.until,
    )
    for number, pod in enumerate(workload.pods):
        if pod.uid:
            what = f"pod with the uid {pod.uid!r}"
            yield _Named(what, "", f"{path}.pods[{number}]", "a UID is one pod's, for ever")
