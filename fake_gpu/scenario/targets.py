"""Targets of a scenario's faults: whether they exist, and in the scenario's time.

Put here: a fault's cluster, node, card, job, namespace, resource, replica and time, compared with
the scenario.
Not here: the form of a fault line (`spec`), or the changes made by a fault (`fleet.summary`).

The subject of a forged series is not checked: a tenant that forges series also forges names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from domain.interval import format_instant
from fake_gpu.fleet.model_time import instant
from fake_gpu.fleet.namespaces import ALWAYS_THERE, WITH_OPENSHIFT
from fake_gpu.kubernetes.resources import RESOURCES
from fake_gpu.scenario.errors import Problem
from fake_gpu.scenario.spec import JOBS, ClusterSpec, FaultSpec, Scenario

# A list of thousands of nodes is not readable.
NAMES_SHOWN = 20


def target_problems(scenario: Scenario) -> list[Problem]:
    """Faults whose target does not exist, each with its line."""
    return [
        Problem(fault.line, f"faults[{number}].{key}", seen, remedy)
        for number, fault in enumerate(scenario.faults)
        for key, seen, remedy in _of_fault(scenario, fault)
    ]


def target_warnings(scenario: Scenario) -> tuple[str, ...]:
    """Faults whose time is not the scenario's: possible, and probably a mistake."""
    whole = f"{_shown(scenario.from_)} to {_shown(scenario.until)}"
    return tuple(
        f"line {fault.line}: {fault.kind} is in force from {_shown(fault.from_at)} to "
        f"{_shown(fault.until_at)}, and the scenario is about {whole}"
        for fault in scenario.faults
        if fault.from_at is not None
        and fault.until_at is not None
        and (fault.from_at >= scenario.until or fault.until_at <= scenario.from_)
    )


def _shown(second: int) -> str:
    return format_instant(instant(second))


def _of_fault(scenario: Scenario, fault: FaultSpec) -> Iterator[tuple[str, str, str]]:
    """(key, value found, remedy)"""
    names = [cluster.name for cluster in scenario.clusters]
    clusters = [c for c in scenario.clusters if fault.cluster in ("", c.name)]
    if not clusters:
        yield "cluster", f"no cluster {fault.cluster!r}", _one_of(names)
        return
    begin = scenario.from_ if fault.from_at is None else fault.from_at
    end = scenario.until if fault.until_at is None else fault.until_at
    if end <= begin:
        seen = f"{fault.kind} would last from {_shown(begin)} to {_shown(end)}"
        yield "from", seen, "give it `from` and `until` within the scenario's time"
    where = f" in cluster {fault.cluster}" if fault.cluster else ""
    for parameter, known_names in _KNOWN.items():
        wanted = str(fault.parameters.get(parameter) or "")
        known = list(dict.fromkeys(known_names(clusters, scenario)))
        if wanted and wanted not in known:
            seen = f"no {parameter.removeprefix('as_')} {wanted!r}{where}"
            yield parameter, seen, _one_of(known)
    yield from _numbers(clusters, fault.parameters, where)


def _one_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return "one of: " + (", ".join(names[:NAMES_SHOWN]) or "none is there") + more


def _numbers(
    clusters: Sequence[ClusterSpec], parameters: Mapping[str, object], where: str
) -> Iterator[tuple[str, str, str]]:
    """Cards and replicas, which are counted from 0."""
    card, node = parameters.get("card"), str(parameters.get("node") or "")
    nodes = [n for cluster in clusters for n in cluster.nodes if not node or node in n.names()]
    cards = max((n.cards for n in nodes), default=0)
    if isinstance(card, int) and nodes and not 0 <= card < cards:
        of = f"node {node}" if node else f"any node{where}"
        remedy = f"cards: 0 to {cards - 1}" if cards else "it has no cards"
        yield "card", f"no card {card} of {of}", remedy
    replica = parameters.get("replica")
    replicas = max(cluster.monitoring.prometheus_replicas for cluster in clusters)
    if isinstance(replica, int) and replica >= replicas:
        seen = f"no Prometheus replica {replica}{where}"
        yield "replica", seen, f"replicas: 0 to {replicas - 1} (`prometheus_replicas`)"


# --- existing targets ---------------------------------------------------------------------------


def _nodes(clusters: Sequence[ClusterSpec], _: Scenario) -> Iterator[str]:
    return (name for cluster in clusters for node in cluster.nodes for name in node.names())


def _namespaces(clusters: Sequence[ClusterSpec], _: Scenario) -> Iterator[str]:
    for cluster in clusters:
        yield from (namespace.name for namespace in cluster.namespaces)
        yield from (workload.namespace for workload in cluster.workloads)
        yield from (quota.namespace for quota in cluster.quotas)
        yield from (budget.namespace for budget in cluster.budgets)
        yield from (*ALWAYS_THERE, *(WITH_OPENSHIFT if cluster.openshift else ()))


def _jobs(_: Sequence[ClusterSpec], scenario: Scenario) -> Iterator[str]:
    """The jobs that are scraped, and those that other faults bring."""
    yield from JOBS
    for fault in scenario.faults:
        if second := fault.parameters.get("second_job"):
            yield str(second)
        if attacker := fault.parameters.get("attacker"):
            yield f"{attacker}-exporter"


_KNOWN: Mapping[str, Callable[[Sequence[ClusterSpec], Scenario], Iterable[str]]] = {
    "node": _nodes,
    "namespace": _namespaces,
    "job": _jobs,
    "resource": lambda clusters, scenario: [resource.plural for resource in RESOURCES],
    "as_cluster": lambda clusters, scenario: [cluster.name for cluster in scenario.clusters],
}
