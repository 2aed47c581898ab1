"""One node through time: cards, devices, labels, capacity, readiness, as dated states.

Put here: a node's entry in a scenario to a `Node`, independent of any pod.
Not here: its pods (`cluster_simulation`).

During a MIG change a node offers nothing; the capacity of unchanged cards stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fake_gpu.fleet.device_plugin import cards_of, counts_of, devices_of
from fake_gpu.fleet.feature_discovery import CardCut, node_labels
from fake_gpu.fleet.hardware import place, products
from fake_gpu.fleet.model import Card, DcgmNames, Device, Incident, Node, NodeState
from fake_gpu.scenario.named_mig_layouts import LayoutBook
from fake_gpu.scenario.seeds import stream, uuid_of
from fake_gpu.scenario.spec_hardware import CardLayoutSpec, NodeSpec

CardLayouts = tuple[Mapping[str, int] | None, ...]  # of each card; None is a whole card


@dataclass(frozen=True, slots=True)
class _LayoutInterval:
    """An interval of time with one layout; before `ready_at` it is being made."""

    from_at: int
    ready_at: int
    until_at: int | None
    layouts: CardLayouts
    config_name: str


def build_node(
    seed: int,
    cluster_id: str,
    spec: NodeSpec,
    position: int,
    created_at: int,
    book: LayoutBook,
) -> Node:
    """The whole history of the node at `position` of its entry."""
    name = spec.names()[position]
    cards = cards_of(seed, cluster_id, spec, name, position)
    created = spec.joins if spec.joins is not None else created_at
    intervals = _layout_intervals(spec, book, created)
    devices = _all_devices(seed, cluster_id, spec, name, cards, intervals)
    incidents = tuple(
        Incident(cards[i.card].card_id, i.from_, i.until, i.mode, i.xid)
        for i in sorted(spec.incidents, key=lambda i: (i.from_, i.card))
    )
    draw = stream(seed, cluster_id, "node", name)
    return Node(
        cluster_id=cluster_id,
        name=name,
        uid=uuid_of(seed, cluster_id, "node", name),
        created_at=created,
        gone_at=spec.leaves,
        roles=spec.roles,
        host_ip=f"10.{draw.between(0, 63)}.{draw.between(0, 255)}.{draw.between(1, 254)}",
        cpu_cores=spec.cpu_cores,
        memory_bytes=spec.memory_gib * 1024**3,
        driver_version=spec.driver_version,
        cuda_version=spec.cuda_version,
        mig_strategy=spec.mig.strategy if spec.mig else "none",
        cards=cards,
        devices=tuple(devices),
        states=tuple(_states(spec, name, cards, intervals, devices, incidents, created)),
        incidents=incidents,
        dra=spec.dra,
        dcgm_names=_dcgm_names(spec),
    )


def _dcgm_names(spec: NodeSpec) -> tuple[tuple[int, tuple[DcgmNames, ...]], ...]:
    changes = sorted((c.at, c.dcgm_names) for c in spec.changes if c.dcgm_names is not None)
    sets: dict[str, tuple[DcgmNames, ...]] = {
        "old": ("old",),
        "new": ("new",),
        "both": ("old", "new"),
    }
    return tuple((at, sets[names]) for at, names in [(0, spec.dcgm_names), *changes])


def _layout_intervals(spec: NodeSpec, book: LayoutBook, created: int) -> list[_LayoutInterval]:
    changes = [(c.at, c.at + c.takes, c.layout) for c in spec.changes if c.layout is not None]
    first = spec.mig.layout if spec.mig else None
    starts: list[tuple[int, int, CardLayoutSpec | None]] = [
        (created, created, first),
        *sorted(changes, key=lambda c: c[0]),
    ]
    intervals = []
    for n, (at, ready, layout) in enumerate(starts):
        until = starts[n + 1][0] if n + 1 < len(starts) else None
        layouts = _card_layouts(spec, layout, book)
        intervals.append(_LayoutInterval(at, ready, until, layouts, layout.name if layout else ""))
    return intervals


def _card_layouts(spec: NodeSpec, layout: CardLayoutSpec | None, book: LayoutBook) -> CardLayouts:
    if layout is None:
        return (None,) * spec.cards
    return book.card_layouts(layout, spec.product, spec.cards)


def _cut_card(card: Card, layout: Mapping[str, int] | None) -> CardCut:
    if layout is None:
        return CardCut(card, None)
    placed = place(products()[card.product], {p: n for p, n in layout.items() if n})
    assert placed is not None, "layouts are checked when the scenario is read"
    return CardCut(card, placed)


def _all_devices(
    seed: int,
    cluster_id: str,
    spec: NodeSpec,
    name: str,
    cards: Sequence[Card],
    intervals: Sequence[_LayoutInterval],
) -> list[Device]:
    """Every device that ever exists; an unchanged card keeps its devices over a change."""
    devices: list[Device] = []
    for card in cards:
        n = 0
        while n < len(intervals):
            layout = intervals[n].layouts[card.index]
            last = n
            while last + 1 < len(intervals) and intervals[last + 1].layouts[card.index] == layout:
                last += 1
            draw = stream(seed, cluster_id, "devices", name, card.index, n)
            from_at = intervals[n].ready_at
            devices += devices_of(
                spec, _cut_card(card, layout), draw, from_at, intervals[last].until_at
            )
            n = last + 1
    return devices


def _states(
    spec: NodeSpec,
    name: str,
    cards: Sequence[Card],
    intervals: Sequence[_LayoutInterval],
    devices: Sequence[Device],
    incidents: Sequence[Incident],
    created: int,
) -> list[NodeState]:
    edges = {created}
    edges |= {e.from_at for e in intervals} | {e.ready_at for e in intervals}
    edges |= {change.at for change in spec.changes}
    edges |= {i.from_at for i in incidents} | {i.until_at for i in incidents if i.until_at}
    inside = sorted(e for e in edges if e >= created and (spec.leaves is None or e < spec.leaves))
    states = []
    for n, at in enumerate(inside):
        until = inside[n + 1] if n + 1 < len(inside) else spec.leaves
        states.append(_state(spec, name, cards, intervals, devices, incidents, at, until))
    return states


def _state(
    spec: NodeSpec,
    name: str,
    cards: Sequence[Card],
    intervals: Sequence[_LayoutInterval],
    devices: Sequence[Device],
    incidents: Sequence[Incident],
    at: int,
    until: int | None,
) -> NodeState:
    interval = next(e for e in reversed(intervals) if e.from_at <= at)
    making = at < interval.ready_at
    there = [d for d in devices if d.exists_at(at)]
    unhealthy = {i.card_id for i in incidents if i.covers(at)}
    known = {d.resource for d in devices if d.resource and d.exists_from <= at}
    if spec.mig and spec.mig.strategy == "mixed" and not spec.dra:
        known.add("nvidia.com/gpu")  # registered with no devices when every card is cut
    healthy = [d for d in there if d.card_id not in unhealthy and not making]
    condition = _condition(spec, at)
    return NodeState(
        from_at=at,
        until_at=until,
        labels=_labels_at(spec, name, cards, intervals, interval, at),
        annotations={},
        capacity=counts_of(there, sorted(known)),
        allocatable=counts_of(healthy, sorted(known)),
        ready=condition.ready,
        unschedulable=condition.cordoned,
        device_ids=tuple(d.device_id for d in there),
        exporters_paused=making,
        not_ready_reason=condition.reason,
        taints=condition.taints,
    )


@dataclass(frozen=True, slots=True)
class _Condition:
    ready: Literal["True", "False", "Unknown"]
    cordoned: bool

    @property
    def reason(self) -> str:
        return {"True": "", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}[self.ready]

    @property
    def taints(self) -> tuple[tuple[str, str, str], ...]:
        taints = []
        if self.cordoned:
            taints.append(("node.kubernetes.io/unschedulable", "", "NoSchedule"))
        if self.ready != "True":
            word = "unreachable" if self.ready == "Unknown" else "not-ready"
            taints.append((f"node.kubernetes.io/{word}", "", "NoExecute"))
        return tuple(taints)


def _condition(spec: NodeSpec, at: int) -> _Condition:
    ready: Literal["True", "False", "Unknown"] = "True"
    cordoned = False
    for change in sorted(spec.changes, key=lambda c: c.at):
        if change.at <= at:
            ready = change.ready if change.ready is not None else ready
            cordoned = change.cordon if change.cordon is not None else cordoned
    return _Condition(ready, cordoned)


def _labels_at(
    spec: NodeSpec,
    name: str,
    cards: Sequence[Card],
    intervals: Sequence[_LayoutInterval],
    interval: _LayoutInterval,
    at: int,
) -> Mapping[str, str]:
    """Discovery's labels, then the scenario's, then its changes; the old ones while cutting."""
    making = at < interval.ready_at
    shown = intervals[intervals.index(interval) - 1] if making else interval
    cuts = [_cut_card(card, shown.layouts[card.index]) for card in cards]
    labels = node_labels(spec, name, cuts)
    if spec.mig:
        labels["nvidia.com/mig.config"] = interval.config_name or "custom"
        labels["nvidia.com/mig.config.state"] = "pending" if making else "success"
    labels |= spec.labels
    for change in sorted(spec.changes, key=lambda c: c.at):
        if change.at <= at:
            for label, value in change.labels.items():
                if value is None:
                    labels.pop(label, None)
                else:
                    labels[label] = value
    return dict(sorted(labels.items()))
