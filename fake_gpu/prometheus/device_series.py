"""dcgm-exporter and AMD's exporter over the life of one node.

Put here: how steps of devices become the lives of series.
Not here: the steps and their values (`fake_gpu.exporters`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fake_gpu.estate.model import Incident
from fake_gpu.exporters import amd, dcgm
from fake_gpu.exporters.devices import Entity, NodeUse, Step
from fake_gpu.exporters.exposition import Pairs
from fake_gpu.prometheus.segments import (
    DAY_MS,
    AnySegment,
    Life,
    Ramp,
    Segment,
    joined,
    within,
)
from fake_gpu.prometheus.series import LabelPairs
from fake_gpu.prometheus.targets import Target

# Days of readings that a node keeps; one is enough for reading a month in order.
LARGEST_CACHE = 3


@dataclass(frozen=True, slots=True)
class Stretch:
    """An entity's state while nothing of it or of its card changes."""

    entity: Entity
    step: Step
    from_at: int
    until_at: int
    milliwatts: int
    card_pct: float
    incident: Incident | None


class NodeStretches:
    """The stretches of all entities of a node, a few days at a time."""

    def __init__(self, use: NodeUse) -> None:
        self.use = use
        self._days: OrderedDict[tuple[int, int], list[Stretch]] = OrderedDict()

    def days(self, first_day: int, last_day: int) -> list[Stretch]:
        key = (first_day, last_day)
        if key not in self._days:
            while len(self._days) >= LARGEST_CACHE:
                self._days.popitem(last=False)
            from_at, until_at = first_day * DAY_MS // 1000, (last_day + 1) * DAY_MS // 1000
            self._days[key] = list(self._between(from_at, until_at))
        return self._days[key]

    def _between(self, from_at: int, until_at: int) -> Iterator[Stretch]:
        power = {
            card.card_id: self.use.milliwatts(card, from_at, until_at)
            for card in self.use.node.cards
        }
        for entity in self.use.entities:
            card = entity.card
            for step in self.use.steps(entity, from_at, until_at):
                for low, high, milliwatts in power[card.card_id]:
                    start, end = max(low, step.from_at), min(high, step.until_at)
                    if start < end:
                        yield from self._by_incident(entity, step, start, end, milliwatts)

    def _by_incident(
        self, entity: Entity, step: Step, start: int, end: int, milliwatts: int
    ) -> Iterator[Stretch]:
        """Cut where something goes wrong with the card, or is repaired."""
        card = entity.card
        own = [i for i in self.use.node.incidents if i.card_id == card.card_id]
        marks = {i.from_at for i in own} | {i.until_at for i in own if i.until_at is not None}
        edges = [start, *sorted(mark for mark in marks if start < mark < end), end]
        above = max(1, card.peak_watts - card.idle_watts)
        card_pct = min(100.0, (milliwatts / 1000 - card.idle_watts) * 100 / above)
        for low, high in pairwise(edges):
            incident = dcgm.incident_at(own, card.card_id, low)
            if incident is None or incident.mode != "lost":
                yield Stretch(entity, step, low, high, milliwatts, card_pct, incident)

    def energy(self, stretch: Stretch, divisor: int) -> Ramp:
        """The card's energy during the stretch, in microjoules by `divisor`."""
        return Ramp(
            stretch.from_at * 1000,
            stretch.until_at * 1000,
            stretch.from_at * 1000,
            self.use.microjoules_at(stretch.entity.card, stretch.from_at),
            stretch.milliwatts,
            divisor,
        )


class _Collected:
    """Segments by labels, in the order of time."""

    def __init__(self, target: Target, name: str) -> None:
        self.target = target
        self.name = name
        self._found: dict[LabelPairs, list[AnySegment]] = {}
        self._labelled: dict[Pairs, LabelPairs] = {}

    def add(self, exposed: Pairs, segment: AnySegment) -> None:
        labels = self._labelled.get(exposed)
        if labels is None:
            labels = self._labelled[exposed] = self.target.labelled(self.name, exposed)
        self._found.setdefault(labels, []).append(segment)

    def lives(self) -> list[Life]:
        return [
            Life(self.target, labels, within(joined(parts), self.target.reachable))
            for labels, parts in self._found.items()
        ]


class DcgmSeries:
    """dcgm-exporter on one node."""

    def __init__(self, target: Target, stretches: NodeStretches, style: dcgm.Style) -> None:
        self.target = target
        self.stretches = stretches
        self.style = style
        self.fields = dcgm.by_name(dcgm.fields_of(style))

    def names(self) -> Iterable[str]:
        return self.fields

    def lives(self, name: str, start_ms: int, end_ms: int) -> Sequence[Life]:
        field = self.fields[name]
        node = self.stretches.use.node
        collected = _Collected(self.target, name)
        for stretch in self.stretches.days(start_ms // DAY_MS, end_ms // DAY_MS):
            if stretch.entity.gpu_instance_id is not None and not field.of_instances:
                continue
            own = dcgm.identity(node, stretch.entity, self.style)
            segment = self._segment(field, stretch)
            for pod in dcgm.attributions(stretch.entity, stretch.step, self.style):
                collected.add((*own, *pod), segment)
        return collected.lives()

    def _segment(self, field: dcgm.Field, stretch: Stretch) -> AnySegment:
        if field.head.name == dcgm.ENERGY:
            return self.stretches.energy(stretch, divisor=1000)
        reading = dcgm.Reading(stretch.entity, stretch.step, stretch.milliwatts, stretch.incident)
        value = float(field.value(reading))
        return Segment(stretch.from_at * 1000, stretch.until_at * 1000, value)


class AmdSeries:
    """AMD's device-metrics-exporter on one node."""

    def __init__(self, target: Target, stretches: NodeStretches) -> None:
        self.target = target
        self.stretches = stretches
        self.metrics = {metric.head.name: metric for metric in amd.METRICS}

    def names(self) -> Iterable[str]:
        return [*self.metrics, amd.NODES]

    def lives(self, name: str, start_ms: int, end_ms: int) -> Sequence[Life]:
        node = self.stretches.use.node
        collected = _Collected(self.target, name)
        first_day, last_day = start_ms // DAY_MS, end_ms // DAY_MS
        if name == amd.NODES:
            whole = Segment(first_day * DAY_MS, (last_day + 1) * DAY_MS, amd.nodes_total(node))
            collected.add((("hostname", node.name),), whole)
            return collected.lives()
        metric = self.metrics[name]
        for stretch in self.stretches.days(first_day, last_day):
            own = amd.identity(node, stretch.entity)
            pod = amd.attribution(stretch.step)
            collected.add((*own, *pod, *metric.extra), self._segment(metric, stretch))
        return collected.lives()

    def _segment(self, metric: amd.Metric, stretch: Stretch) -> AnySegment:
        if metric.head.name == amd.ENERGY and not stretch.entity.partition_id:
            return self.stretches.energy(stretch, divisor=1)
        reading = amd.Reading(
            stretch.entity,
            stretch.step,
            stretch.milliwatts,
            stretch.card_pct,
            stretch.incident,
        )
        value = float(metric.value(reading))
        return Segment(stretch.from_at * 1000, stretch.until_at * 1000, value)
