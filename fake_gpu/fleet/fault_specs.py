"""Faults of the fleet that are part of its history: they change nodes and namespaces.

Put here: a scenario's fault lines to faults with IDs and seeds, and those that change hardware.
Not here: faults that touch running pods (`disturbances`), or those that only views show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from fake_gpu.fleet.calendar import FOR_EVER
from fake_gpu.fleet.model import Fault, Node
from fake_gpu.fleet.namespaces import always_there, labels_of
from fake_gpu.scenario.errors import BadScenario, Problem
from fake_gpu.scenario.named_mig_layouts import LayoutBook
from fake_gpu.scenario.schema import InvalidScenarioValue
from fake_gpu.scenario.seeds import stream
from fake_gpu.scenario.spec import ClusterSpec, Scenario
from fake_gpu.scenario.spec_hardware import CardLayoutSpec, IncidentSpec, NodeChangeSpec, NodeSpec
from fake_gpu.scenario.spec_work import NamespaceChangeSpec, NamespaceSpec

# A namespace that was made again has several specifications, in order.
NamespaceSpecs = tuple[NamespaceSpec, ...]

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


@dataclass(frozen=True, slots=True)
class Effects:
    """Changes a cluster by faults, and counts those that it can ever be seen by."""

    build: Callable[[NodeSpec], Node]  # the whole history of a node
    layouts: LayoutBook
    horizon: int  # the end of the history
    fired: dict[str, int]

    def on(self, spec: ClusterSpec, cluster_id: str, faults: Sequence[Fault]) -> ClusterSpec:
        """The cluster with one entry for each node, changed by the faults of its hardware."""
        nodes = [single for node in spec.nodes for single in one_by_one(node)]
        namespaces = _all_namespaces(spec)
        for node in nodes:
            check_named_layouts(node, self.layouts)
        for fault in faults:
            if fault.cluster_id in ("", cluster_id) and fault.from_at < self.horizon:
                nodes = [self._node(node, fault) for node in nodes]
                namespaces = [self._namespace(each, fault) for each in namespaces]
        return replace(spec, nodes=tuple(nodes), namespaces=tuple(chain.from_iterable(namespaces)))

    def _node(self, spec: NodeSpec, fault: Fault) -> NodeSpec:
        if fault.parameters.get("node") not in ("", spec.name, None) or not spec.cards:
            return spec
        changed = _changed(spec, fault)
        if changed is spec:
            return spec
        check_named_layouts(changed, self.layouts)
        ever = [self.build(each).known_by(self.horizon) for each in (spec, changed)]
        if ever[0] == ever[1]:
            return spec
        self._count(fault)
        return changed

    def _namespace(self, specs: NamespaceSpecs, fault: Fault) -> NamespaceSpecs:
        if fault.parameters.get("namespace") != specs[-1].name:
            return specs
        changed = specs
        if fault.kind == "namespace_recreated":
            changed = _recreated(specs, fault)
        if fault.kind == "label_edited":
            changed = _edited(specs, fault)
        if changed is not specs:
            self._count(fault)
        return changed

    def _count(self, fault: Fault) -> None:
        self.fired[fault.fault_id] = self.fired.get(fault.fault_id, 0) + 1


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
        except InvalidScenarioValue as error:
            problem = Problem(0, f"node {spec.name}", error.seen, error.remedy)
            raise BadScenario(spec.name, [problem]) from error


def _changed(spec: NodeSpec, fault: Fault) -> NodeSpec:
    parameters = fault.parameters
    match fault.kind:
        case "node_not_ready":
            gone = NodeChangeSpec(fault.from_at, ready="Unknown")
            back = NodeChangeSpec(fault.until_at, ready="True")
            return replace(spec, changes=(*spec.changes, gone, back))
        case "node_removed" if (spec.joins or 0) < fault.from_at < (spec.leaves or FOR_EVER):
            return replace(spec, leaves=fault.from_at)
        case "mig_repartition" if spec.mig:
            layout = CardLayoutSpec(str(parameters["layout"]), ())
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


def _all_namespaces(spec: ClusterSpec) -> list[NamespaceSpecs]:
    """Every named namespace, with all its lifetimes."""
    specs: dict[str, list[NamespaceSpec]] = {}
    for written in spec.namespaces:
        specs.setdefault(written.name, []).append(written)
    named = [each.namespace for each in spec.workloads] + [each.namespace for each in spec.quotas]
    named += [each.namespace for each in spec.budgets]
    for name in (*named, *always_there(openshift=bool(spec.openshift))):
        specs.setdefault(name, [NamespaceSpec(name)])
    return [tuple(each) for each in specs.values()]


def _recreated(specs: NamespaceSpecs, fault: Fault) -> NamespaceSpecs:
    last = specs[-1]
    if not (last.created or 0) < fault.from_at < (last.deleted or FOR_EVER):
        return specs
    again = NamespaceSpec(last.name, created=fault.from_at + RECREATED_AFTER_SECONDS)
    return (*specs[:-1], replace(last, deleted=fault.from_at), again)


def _edited(specs: NamespaceSpecs, fault: Fault) -> NamespaceSpecs:
    """The namespace has other labels for a while."""
    last = specs[-1]
    edited = {**last.labels, str(fault.parameters["label"]): str(fault.parameters["to"])}
    is_there = (last.created or 0) < fault.until_at and fault.from_at < (last.deleted or FOR_EVER)
    own = labels_of(last.name, last.labels)
    if labels_of(last.name, edited) == own or not is_there:
        return specs
    changes = (
        NamespaceChangeSpec(fault.from_at, edited),
        NamespaceChangeSpec(fault.until_at, last.labels),
    )
    return (*specs[:-1], replace(last, changes=(*last.changes, *changes)))
