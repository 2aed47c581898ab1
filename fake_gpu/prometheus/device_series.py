"""dcgm-exporter and AMD's exporter over the life of one node.

Put here: how steps of devices become the lives of series.
Not here: the steps and their values (`fake_gpu.exporters`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fake_gpu.estate.model import Card, Incident
from fake_gpu.exporters import amd, dcgm
from fake_gpu.exporters.devices import Entity, NodeUse, Step
from fake_gpu.exporters.exposition import Pairs
from fake_gpu.prometheus.segments import (
    DAY_MS,
    AnySegment,
    Life,
    LineCounts,
    Ramp,
    Segment,
    within,
)
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
    incident: Incident | None
    state: int  # equal for stretches of one entity whose values are all equal

    @property
    def card_pct(self) -> float:
        card = self.entity.card
        above = max(1, card.peak_watts - card.idle_watts)
        return min(100.0, (self.milliwatts / 1000 - card.idle_watts) * 100 / above)


@dataclass(frozen=True, slots=True)
class _Trouble:
    """What goes wrong with a card, and when that begins and ends."""

    incidents: list[Incident]
    marks: list[int]


class NodeStretches:
    """The stretches of all entities of a node, a few days at a time."""

    def __init__(self, use: NodeUse, resets: Sequence[int] = ()) -> None:
        self.use = use
        self.resets = sorted(resets)  # when the energy counters of all cards began again
        self._days: OrderedDict[tuple[int, int], list[Stretch]] = OrderedDict()
        self._states: dict[tuple[object, ...], int] = {}

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
            levels = power[entity.card.card_id]
            trouble = self._trouble(entity.card)
            position = 0
            for step in self.use.steps(entity, from_at, until_at):
                while levels[position][1] <= step.from_at:
                    position += 1
                for low, high, milliwatts in levels[position:]:
                    if low >= step.until_at:
                        break
                    start, end = max(low, step.from_at), min(high, step.until_at)
                    if trouble.marks:
                        yield from self._cut(entity, step, start, end, milliwatts, trouble)
                    else:
                        yield self._stretch(entity, step, start, end, milliwatts, None)

    def _trouble(self, card: Card) -> _Trouble:
        own = [i for i in self.use.node.incidents if i.card_id == card.card_id]
        marks = {i.from_at for i in own} | {i.until_at for i in own if i.until_at is not None}
        return _Trouble(own, sorted(marks | set(self.resets)))

    def _cut(
        self,
        entity: Entity,
        step: Step,
        start: int,
        end: int,
        milliwatts: int,
        trouble: _Trouble,
    ) -> Iterator[Stretch]:
        """Cut where something goes wrong with the card, or is repaired."""
        edges = [start, *(mark for mark in trouble.marks if start < mark < end), end]
        for low, high in pairwise(edges):
            incident = dcgm.incident_at(trouble.incidents, entity.card.card_id, low)
            if incident is None or incident.mode != "lost":
                yield self._stretch(entity, step, low, high, milliwatts, incident)

    def _stretch(
        self,
        entity: Entity,
        step: Step,
        low: int,
        high: int,
        milliwatts: int,
        incident: Incident | None,
    ) -> Stretch:
        known = (step.pct, step.used_mib, milliwatts, incident)
        state = self._states.setdefault(known, len(self._states))
        return Stretch(entity, step, low, high, milliwatts, incident, state)

    def held(self, start_ms: int, end_ms: int) -> Iterator[tuple[Entity, Step, int, int]]:
        """Who has each entity, while it says anything, in the days of a range."""
        from_at = start_ms // DAY_MS * DAY_MS // 1000
        until_at = (end_ms // DAY_MS + 1) * DAY_MS // 1000
        for entity in self.use.entities:
            lost = [i for i in self._trouble(entity.card).incidents if i.mode == "lost"]
            for step in self.use.steps(entity, from_at, until_at, loads=False):
                for low, high in _without(step.from_at, step.until_at, lost):
                    yield entity, step, low * 1000, high * 1000

    def energy(self, stretch: Stretch, divisor: int) -> Ramp:
        """The card's energy during the stretch, in microjoules by `divisor`."""
        base = self.use.microjoules_at(stretch.entity.card, stretch.from_at)
        before = [at for at in self.resets if at <= stretch.from_at]
        if before:
            base -= self.use.microjoules_at(stretch.entity.card, before[-1])
        from_ms = stretch.from_at * 1000
        until_ms = stretch.until_at * 1000
        return Ramp(from_ms, until_ms, from_ms, base, stretch.milliwatts, divisor)


def _without(low: int, high: int, lost: Sequence[Incident]) -> list[tuple[int, int]]:
    """The parts of a time in which a card is not lost."""
    parts = [(low, high)]
    for incident in lost:
        end = high if incident.until_at is None else incident.until_at
        parts = [
            (max(start, from_at), min(stop, until_at))
            for start, stop in parts
            for from_at, until_at in ((low, incident.from_at), (end, high))
            if max(start, from_at) < min(stop, until_at)
        ]
    return parts


@dataclass(frozen=True, slots=True)
class Exposed:
    """The stretches during which one set of labels is exposed, in order."""

    entity: Entity
    labels: Pairs
    stretches: list[Stretch]


def _grouped(
    stretches: Iterable[Stretch], labels: Callable[[Stretch], Iterable[Pairs]]
) -> list[Exposed]:
    found: dict[tuple[int, Pairs], Exposed] = {}
    # Steps of one set of holders share it, so its groups are looked up once.
    same: tuple[int, int] = (0, 0)
    groups: list[Exposed] = []
    for stretch in stretches:
        current = (id(stretch.entity), id(stretch.step.holders))
        if current != same:
            same = current
            groups = []
            for exposed in labels(stretch):
                key = (id(stretch.entity), exposed)
                if key not in found:
                    found[key] = Exposed(stretch.entity, exposed, [])
                groups.append(found[key])
        for group in groups:
            group.stretches.append(stretch)
    return list(found.values())


def _valued(group: Exposed, value: Callable[[Stretch], float]) -> tuple[AnySegment, ...]:
    """The segments of one series; equal states have equal values and are computed once."""
    known: dict[int, float] = {}
    segments: list[AnySegment] = []
    start = end = 0
    last: float | None = None
    for stretch in group.stretches:
        current = known.get(stretch.state)
        if current is None:
            current = known[stretch.state] = float(value(stretch))
        if current != last or stretch.from_at != end:
            if last is not None:
                segments.append(Segment(start * 1000, end * 1000, last))
            start, last = stretch.from_at, current
        end = stretch.until_at
    if last is not None:
        segments.append(Segment(start * 1000, end * 1000, last))
    return tuple(segments)


class DcgmSeries:
    """dcgm-exporter on one node."""

    def __init__(self, target: Target, stretches: NodeStretches, style: dcgm.Style) -> None:
        self.target = target
        self.stretches = stretches
        self.style = style
        self.fields = dcgm.by_name(dcgm.fields_of(style))
        self._groups: tuple[tuple[int, int], list[Exposed]] = ((0, 0), [])
        # The days that were asked for last: a month is read hour by hour, function by function.
        self._lives: dict[str, tuple[tuple[int, int], list[Life]]] = {}

    def names(self) -> Iterable[str]:
        return self.fields

    def lives(self, name: str, start_ms: int, end_ms: int) -> Sequence[Life]:
        days = (start_ms // DAY_MS, end_ms // DAY_MS)
        known = self._lives.get(name)
        if known is None or known[0] != days:
            known = self._lives[name] = (days, self._of(name, days))
        return known[1]

    def _of(self, name: str, days: tuple[int, int]) -> list[Life]:
        field = self.fields[name]
        return [
            Life(
                self.target,
                self.target.labelled(name, group.labels),
                within(self._segments(field, group), self.target.reachable),
                group.labels,
            )
            for group in self._exposed(*days)
            if field.of_instances or group.entity.gpu_instance_id is None
        ]

    def line_counts(self, start_ms: int, end_ms: int) -> LineCounts:
        of_instances = sum(field.of_instances for field in self.fields.values())
        for entity, step, from_ms, until_ms in self.stretches.held(start_ms, end_ms):
            fields = len(self.fields) if entity.gpu_instance_id is None else of_instances
            sets = sum(1 for _ in dcgm.attributions(entity, step, self.style))
            yield from_ms, until_ms, fields * sets

    def _exposed(self, first_day: int, last_day: int) -> list[Exposed]:
        if self._groups[0] != (first_day, last_day):
            stretches = self.stretches.days(first_day, last_day)
            self._groups = ((first_day, last_day), _grouped(stretches, self._labels))
        return self._groups[1]

    def _labels(self, stretch: Stretch) -> Iterator[Pairs]:
        own = dcgm.identity(self.stretches.use.node, stretch.entity, self.style)
        for pod in dcgm.attributions(stretch.entity, stretch.step, self.style):
            yield (*own, *pod)

    def _segments(self, field: dcgm.Field, group: Exposed) -> tuple[AnySegment, ...]:
        if field.head.name == dcgm.ENERGY:
            return tuple(self.stretches.energy(each, divisor=1000) for each in group.stretches)

        def value(stretch: Stretch) -> float:
            reading = dcgm.Reading(
                stretch.entity, stretch.step, stretch.milliwatts, stretch.incident
            )
            return field.value(reading)

        return _valued(group, value)


class AmdSeries:
    """AMD's device-metrics-exporter on one node."""

    def __init__(self, target: Target, stretches: NodeStretches) -> None:
        self.target = target
        self.stretches = stretches
        self.metrics = {metric.head.name: metric for metric in amd.METRICS}
        self._groups: tuple[tuple[int, int], list[Exposed]] = ((0, 0), [])
        # The days that were asked for last: a month is read hour by hour, function by function.
        self._lives: dict[str, tuple[tuple[int, int], list[Life]]] = {}

    def names(self) -> Iterable[str]:
        return [*self.metrics, amd.NODES]

    def lives(self, name: str, start_ms: int, end_ms: int) -> Sequence[Life]:
        days = (start_ms // DAY_MS, end_ms // DAY_MS)
        known = self._lives.get(name)
        if known is None or known[0] != days:
            known = self._lives[name] = (days, self._of(name, days))
        return known[1]

    def _of(self, name: str, days: tuple[int, int]) -> list[Life]:
        if name == amd.NODES:
            return [self._nodes(*days)]
        metric = self.metrics[name]
        lives = []
        for group in self._exposed(*days):
            exposed = (*group.labels, *metric.extra)
            segments = within(self._segments(metric, group), self.target.reachable)
            labels = self.target.labelled(name, exposed)
            lives.append(Life(self.target, labels, segments, exposed))
        return lives

    def line_counts(self, start_ms: int, end_ms: int) -> LineCounts:
        first_day, last_day = start_ms // DAY_MS, end_ms // DAY_MS
        yield first_day * DAY_MS, (last_day + 1) * DAY_MS, 1  # the number of cards
        for _, _, from_ms, until_ms in self.stretches.held(start_ms, end_ms):
            yield from_ms, until_ms, len(self.metrics)

    def _nodes(self, first_day: int, last_day: int) -> Life:
        node = self.stretches.use.node
        exposed = (("hostname", node.name),)
        count = float(amd.nodes_total(node))
        whole = Segment(first_day * DAY_MS, (last_day + 1) * DAY_MS, count)
        labels = self.target.labelled(amd.NODES, exposed)
        return Life(self.target, labels, within([whole], self.target.reachable), exposed)

    def _exposed(self, first_day: int, last_day: int) -> list[Exposed]:
        if self._groups[0] != (first_day, last_day):
            stretches = self.stretches.days(first_day, last_day)
            self._groups = ((first_day, last_day), _grouped(stretches, self._labels))
        return self._groups[1]

    def _labels(self, stretch: Stretch) -> Iterator[Pairs]:
        own = amd.identity(self.stretches.use.node, stretch.entity)
        yield (*own, *amd.attribution(stretch.step))

    def _segments(self, metric: amd.Metric, group: Exposed) -> tuple[AnySegment, ...]:
        if metric.head.name == amd.ENERGY and not group.entity.partition_id:
            return tuple(self.stretches.energy(each, divisor=1) for each in group.stretches)

        def value(stretch: Stretch) -> float:
            reading = amd.Reading(
                stretch.entity,
                stretch.step,
                stretch.milliwatts,
                stretch.card_pct,
                stretch.incident,
            )
            return metric.value(reading)

        return _valued(group, value)
