"""Faults of the estate that are part of its history: they change nodes and namespaces.

Put here: a scenario's fault lines to faults with IDs and seeds, and those that change hardware.
Not here: faults that touch running pods (`disturbances`), or those that only views show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from fake_gpu.estate.model import Fault
from fake_gpu.scenario.errors import BadScenario, Problem
from fake_gpu.scenario.layouts import LayoutBook
from fake_gpu.scenario.schema import Unreadable
from fake_gpu.scenario.seeds import stream
from fake_gpu.scenario.spec import ClusterSpec, Scenario
from fake_gpu.scenario.spec_hardware import IncidentSpec, Layout, NodeChangeSpec, NodeSpec
from fake_gpu.scenario.spec_work import NamespaceChangeSpec, NamespaceSpec

# Someone else makes the namespace again this long after it is gone.
RECREATED_AFTER_SECONDS = 3_600


def as_faults(scenario: Scenario, cluster_ids: Mapping[str, str]) -> tuple[Fault, ...]:
    """The scenario's faults with IDs, clusters and seeds; the whole time when none is given."""
    faults = []
    counts: Counter[str] = Counter()
    for spec in scenario.faults:
        number = counts[spec.kind]
        counts[spec.kind] += 1
        if spec.cluster and spec.cluster not in cluster_ids:
            problem = Problem(
                spec.line,
                "faults",
                f"no cluster {spec.cluster!r}",
                "one of: " + ", ".join(cluster_ids),
            )
            raise BadScenario(scenario.name, [problem])
        drawn = stream(scenario.seed, "fault", spec.kind, number).below(1 << 31)
        faults.append(
            Fault(
                fault_id=f"{spec.kind}#{number}",
                kind=spec.kind,
                cluster_id=cluster_ids[spec.cluster] if spec.cluster else "",
                from_at=scenario.from_ if spec.from_at is None else spec.from_at,
                until_at=scenario.until if spec.until_at is None else spec.until_at,
                seed=drawn if spec.seed is None else spec.seed,
                parameters=spec.parameters,
            )
        )
    return tuple(faults)


def with_estate_faults(
    spec: ClusterSpec,
    cluster_id: str,
    faults: Sequence[Fault],
    layouts: LayoutBook,
    fired: dict[str, int],
) -> ClusterSpec:
    """The cluster with one entry for each node, changed by the faults of its hardware."""
    nodes = [single for node in spec.nodes for single in one_by_one(node)]
    namespaces = list(spec.namespaces)
    for fault in faults:
        if fault.cluster_id not in ("", cluster_id):
            continue
        nodes = [_node_with(node, fault, fired) for node in nodes]
        if fault.kind == "namespace_recreated":
            namespaces = _recreated(namespaces, fault, fired)
        if fault.kind == "label_edited":
            namespaces = _edited(namespaces, fault, fired)
    for node in nodes:
        check_named_layouts(node, layouts)
    return replace(spec, nodes=tuple(nodes), namespaces=tuple(namespaces))


def one_by_one(spec: NodeSpec) -> list[NodeSpec]:
    """An entry for several nodes as one entry for each."""
    return [
        replace(
            spec,
            name=name,
            count=1,
            card_ids=spec.card_ids[n * spec.cards : (n + 1) * spec.cards],
        )
        for n, name in enumerate(spec.names())
    ]


def check_named_layouts(spec: NodeSpec, layouts: LayoutBook) -> None:
    """Layouts by name exist and fit the node's product."""
    wanted = [spec.mig.layout] if spec.mig else []
    wanted += [change.layout for change in spec.changes if change.layout]
    for layout in wanted:
        try:
            layouts.card_layouts(layout, spec.product, spec.cards)
        except Unreadable as error:
            problem = Problem(0, f"node {spec.name}", error.seen, error.remedy)
            raise BadScenario(spec.name, [problem]) from error


def _node_with(spec: NodeSpec, fault: Fault, fired: dict[str, int]) -> NodeSpec:
    if fault.parameters.get("node") not in ("", spec.name, None) or not spec.cards:
        return spec
    changed = _changed(spec, fault)
    if changed is not spec:
        fired[fault.fault_id] = fired.get(fault.fault_id, 0) + 1
    return changed


def _changed(spec: NodeSpec, fault: Fault) -> NodeSpec:
    parameters = fault.parameters
    match fault.kind:
        case "node_not_ready":
            gone = NodeChangeSpec(fault.from_at, ready="Unknown")
            back = NodeChangeSpec(fault.until_at, ready="True")
            return replace(spec, changes=(*spec.changes, gone, back))
        case "node_removed":
            return replace(spec, leaves=fault.from_at)
        case "mig_repartition" if spec.mig:
            layout = Layout(str(parameters["layout"]), ())
            takes = int(str(parameters["takes"]))
            change = NodeChangeSpec(fault.from_at, layout=layout, takes=takes)
            return replace(spec, changes=(*spec.changes, change))
        case "card_unhealthy" if int(str(parameters["card"])) < spec.cards:
            incident = IncidentSpec(
                int(str(parameters["card"])),
                fault.from_at,
                fault.until_at,
                _MODES[str(parameters["mode"])],
                int(str(parameters["xid"])),
            )
            return replace(spec, incidents=(*spec.incidents, incident))
        case _:
            return spec


_MODES: dict[str, Literal["xid", "lost", "ecc", "unhealthy"]] = {
    "xid": "xid",
    "lost": "lost",
    "ecc": "ecc",
    "unhealthy": "unhealthy",
}


def _recreated(
    namespaces: list[NamespaceSpec], fault: Fault, fired: dict[str, int]
) -> list[NamespaceSpec]:
    name = str(fault.parameters["namespace"])
    before = [n for n in namespaces if n.name == name] or [NamespaceSpec(name)]
    again = NamespaceSpec(name, created=fault.from_at + RECREATED_AFTER_SECONDS)
    fired[fault.fault_id] = fired.get(fault.fault_id, 0) + 1
    others = [n for n in namespaces if n.name != name]
    return [*others, *before[:-1], replace(before[-1], deleted=fault.from_at), again]


def _edited(
    namespaces: list[NamespaceSpec], fault: Fault, fired: dict[str, int]
) -> list[NamespaceSpec]:
    """The namespace says something else of itself, for a while."""
    name = str(fault.parameters["namespace"])
    before = [n for n in namespaces if n.name == name] or [NamespaceSpec(name)]
    own = before[-1].labels
    edited = {**own, str(fault.parameters["label"]): str(fault.parameters["to"])}
    changes = (
        NamespaceChangeSpec(fault.from_at, edited),
        NamespaceChangeSpec(fault.until_at, own),
    )
    fired[fault.fault_id] = fired.get(fault.fault_id, 0) + 1
    others = [n for n in namespaces if n.name != name]
    changed = replace(before[-1], changes=(*before[-1].changes, *changes))
    return [*others, *before[:-1], changed]
