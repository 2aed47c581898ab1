"""The state of every card and instance of a node over a day, as intervals without a change.

Put here: use, power, energy and incidents of entities, cut into intervals.
Not here: the series that exporters make of them (`device_series`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from fake_gpu.exporters import dcgm
from fake_gpu.exporters.devices import Entity, EntityState, NodeUse
from fake_gpu.fleet.model import Card, Incident
from fake_gpu.prometheus.segments import DAY_MS

# Days of readings that a node keeps; one is enough for reading a month in order.
LARGEST_CACHE = 3


class EntityInterval(NamedTuple):
    """An entity's state while nothing of it or of its card changes."""

    entity: Entity
    step: EntityState
    from_at: int
    until_at: int
    milliwatts: int
    microjoules: int  # of the card, when the interval begins
    incident: Incident | None
    state: int  # equal for intervals of one entity whose values are all equal

    @property
    def card_pct(self) -> float:
        card = self.entity.card
        above = max(1, card.peak_watts - card.idle_watts)
        return min(100.0, (self.milliwatts / 1000 - card.idle_watts) * 100 / above)


class _Level(NamedTuple):
    """A card's power while it stays the same, and its energy when that begins."""

    from_at: int
    until_at: int
    milliwatts: int
    microjoules: int

    def microjoules_at(self, at: int) -> int:
        # A milliwatt for a second is a millijoule.
        return self.microjoules + self.milliwatts * (at - self.from_at) * 1000


@dataclass(frozen=True, slots=True)
class _CardIncidents:
    """The incidents of a card, and the times at which its series change because of them."""

    incidents: list[Incident]
    marks: list[int]


class NodeIntervals:
    """The intervals of all entities of a node, a day at a time."""

    def __init__(self, use: NodeUse, resets: Sequence[int] = ()) -> None:
        self.use = use
        self.resets = sorted(resets)  # when the energy counters of all cards began again
        self._days: OrderedDict[int, list[EntityInterval]] = OrderedDict()
        self._states: dict[tuple[object, ...], int] = {}

    def day(self, day: int) -> list[EntityInterval]:
        """The intervals of a day, those of one entity after another."""
        if day not in self._days:
            while len(self._days) >= LARGEST_CACHE:
                self._days.popitem(last=False)
            from_at, until_at = day * DAY_MS // 1000, (day + 1) * DAY_MS // 1000
            self._days[day] = list(self._between(from_at, until_at))
        return self._days[day]

    def _between(self, from_at: int, until_at: int) -> Iterator[EntityInterval]:
        entities = self.use.entities
        steps = {id(entity): self.use.steps(entity, from_at, until_at) for entity in entities}
        power = {
            card.card_id: self._power(card, from_at, until_at, steps)
            for card in self.use.node.cards
        }
        for entity in entities:
            levels = power[entity.card.card_id]
            card_incidents = self._card_incidents(entity.card)
            if not card_incidents.marks and _same_edges(steps[id(entity)], levels):
                pairs = zip(steps[id(entity)], levels, strict=True)
                yield from [self._alone(entity, step, level) for step, level in pairs]
                continue
            position = 0
            for step in steps[id(entity)]:
                while levels[position].until_at <= step.from_at:
                    position += 1
                for at in range(position, len(levels)):
                    level = levels[at]
                    if level.from_at >= step.until_at:
                        break
                    start, end = (
                        max(level.from_at, step.from_at),
                        min(level.until_at, step.until_at),
                    )
                    if card_incidents.marks:
                        yield from self._cut_interval(
                            entity, step, start, end, level, card_incidents
                        )
                    else:
                        yield self._interval(entity, step, start, end, level, None)

    def _alone(self, entity: Entity, step: EntityState, level: _Level) -> EntityInterval:
        """A step of a healthy card with one holder."""
        known = (step.pct, step.used_mib, level.milliwatts, None)
        state = self._states.setdefault(known, len(self._states))
        from_at, until_at, milliwatts, spent = level
        return EntityInterval(entity, step, from_at, until_at, milliwatts, spent, None, state)

    def _power(
        self, card: Card, from_at: int, until_at: int, steps: Mapping[int, Sequence[EntityState]]
    ) -> list[_Level]:
        levels = []
        spent = self.use.microjoules_at(card, from_at)
        for low, high, milliwatts in self.use.milliwatts(card, from_at, until_at, steps):
            levels.append(_Level(low, high, milliwatts, spent))
            spent += milliwatts * (high - low) * 1000
        self.use.remember_energy(card, from_at, until_at, spent)
        return levels

    def _card_incidents(self, card: Card) -> _CardIncidents:
        own = [i for i in self.use.node.incidents if i.card_id == card.card_id]
        marks = {i.from_at for i in own} | {i.until_at for i in own if i.until_at is not None}
        return _CardIncidents(own, sorted(marks | set(self.resets)))

    def _cut_interval(
        self,
        entity: Entity,
        step: EntityState,
        start: int,
        end: int,
        level: _Level,
        card_incidents: _CardIncidents,
    ) -> Iterator[EntityInterval]:
        """Cut where an incident of the card begins or ends."""
        edges = [start, *(mark for mark in card_incidents.marks if start < mark < end), end]
        for low, high in pairwise(edges):
            incident = dcgm.incident_at(card_incidents.incidents, entity.card.card_id, low)
            if incident is None or incident.mode != "lost":
                yield self._interval(entity, step, low, high, level, incident)

    def _interval(
        self,
        entity: Entity,
        step: EntityState,
        low: int,
        high: int,
        level: _Level,
        incident: Incident | None,
    ) -> EntityInterval:
        known = (step.pct, step.used_mib, level.milliwatts, incident)
        state = self._states.setdefault(known, len(self._states))
        spent = level.microjoules_at(low)
        return EntityInterval(entity, step, low, high, level.milliwatts, spent, incident, state)

    def held(self, start_ms: int, end_ms: int) -> Iterator[tuple[Entity, EntityState, int, int]]:
        """The holders of each entity that has series, in the days of a range."""
        from_at = start_ms // DAY_MS * DAY_MS // 1000
        until_at = (end_ms // DAY_MS + 1) * DAY_MS // 1000
        for entity in self.use.entities:
            lost = [i for i in self._card_incidents(entity.card).incidents if i.mode == "lost"]
            for step in self.use.steps(entity, from_at, until_at, loads=False):
                for low, high in _without(step.from_at, step.until_at, lost):
                    yield entity, step, low * 1000, high * 1000

    def microjoules(self, interval: EntityInterval) -> int:
        """The card's energy when the interval begins, as its counter shows it."""
        before = [at for at in self.resets if at <= interval.from_at]
        if not before:
            return interval.microjoules
        return interval.microjoules - self.use.microjoules_at(interval.entity.card, before[-1])


def _same_edges(steps: Sequence[EntityState], levels: Sequence[_Level]) -> bool:
    return len(steps) == len(levels) and all(
        step.from_at == level.from_at and step.until_at == level.until_at
        for step, level in zip(steps, levels, strict=True)
    )


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
