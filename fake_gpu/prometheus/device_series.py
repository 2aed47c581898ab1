"""The series of dcgm-exporter and AMD's exporter on one node.

Put here: how intervals of devices become series, day by day.
Not here: the intervals (`node_intervals`), labels and values (`fake_gpu.exporters`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from fake_gpu.exporters import amd, dcgm
from fake_gpu.exporters.devices import Entity
from fake_gpu.exporters.exposition import Pairs
from fake_gpu.fleet.model import DcgmNames, Node
from fake_gpu.prometheus.node_intervals import LARGEST_CACHE, EntityInterval, NodeIntervals
from fake_gpu.prometheus.segments import (
    DAY_MS,
    AnySegment,
    ExposedSeries,
    LineCounts,
    ValueSegment,
    joined,
    within,
)
from fake_gpu.prometheus.sweeps import Levels, Slopes, Sweep, Track, TrackValues
from fake_gpu.prometheus.targets import Target

Key = tuple[int, Pairs]  # an entity's `id` (0: the node), and the labels that are exposed of it
Segments = dict[Key, tuple[AnySegment, ...]]


@dataclass(slots=True)
class ExposedIntervals:
    """The intervals during which one set of labels is exposed, in order."""

    entity: Entity
    labels: Pairs
    intervals: list[EntityInterval]
    _runs: list[_Run] | None = None

    @property
    def runs(self) -> list[_Run]:
        """The intervals without a hole between them; the same for every metric."""
        if self._runs is None:
            ends = [
                number
                for number, (one, other) in enumerate(pairwise(self.intervals), 1)
                if one.until_at != other.from_at
            ]
            edges = [0, *ends, len(self.intervals)]
            self._runs = [_Run(self.intervals[low:high]) for low, high in pairwise(edges)]
        return self._runs

    def levels(self, value: Callable[[EntityInterval], float]) -> tuple[AnySegment, ...]:
        """A metric's values; equal states have equal values and are computed once."""
        known: dict[int, float] = {}
        return tuple([run.levels(value, known) for run in self.runs])


class _Run:
    """A run of adjoining intervals with one exposed set of labels."""

    def __init__(self, intervals: Sequence[EntityInterval]) -> None:
        import numpy as np

        self.intervals = intervals
        self.track = Track([interval.from_at * 1000 for interval in intervals])
        states = np.array([interval.state for interval in intervals], dtype=np.int64)
        _, first, self._which = np.unique(states, return_index=True, return_inverse=True)
        self._examples = [intervals[position] for position in first.tolist()]

    def swept(self, values: TrackValues) -> Sweep:
        from_at, until_at = self.intervals[0].from_at, self.intervals[-1].until_at
        return Sweep(from_at * 1000, until_at * 1000, self.track, values)

    def levels(
        self, value: Callable[[EntityInterval], float], known: dict[int, float]
    ) -> AnySegment:
        import numpy as np

        numbers = []
        for interval in self._examples:
            if interval.state not in known:
                known[interval.state] = float(value(interval))
            numbers.append(known[interval.state])
        if numbers.count(numbers[0]) == len(numbers):
            from_at, until_at = self.intervals[0].from_at, self.intervals[-1].until_at
            return ValueSegment(from_at * 1000, until_at * 1000, numbers[0])
        return self.swept(Levels(np.array(numbers, dtype=np.float64)[self._which]))


class DeviceExporter(Protocol):
    """The series of one kind of exporter about a node."""

    intervals: NodeIntervals

    def names(self) -> Sequence[str]: ...

    def labels(self, interval: EntityInterval) -> Iterable[Pairs]:
        """The label sets under which an entity is exposed during an interval."""
        ...

    def segments(self, name: str, day: int, groups: Iterable[ExposedIntervals]) -> Segments:
        """The values of a metric through a day."""
        ...

    def line_counts(self, start_ms: int, end_ms: int) -> LineCounts: ...


class DeviceSeries:
    """The series of one exporter on one node, made day by day."""

    def __init__(self, target: Target, exporter: DeviceExporter) -> None:
        self.target = target
        self.exporter = exporter
        self.line_counts = exporter.line_counts
        self._groups: OrderedDict[int, list[ExposedIntervals]] = OrderedDict()
        # The last query: a month is read window by window, function by function.
        self._days: dict[str, dict[int, Segments]] = {}
        self._known_series: dict[str, tuple[tuple[int, int], dict[Key, ExposedSeries]]] = {}

    def names(self) -> Iterable[str]:
        return self.exporter.names()

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> Sequence[ExposedSeries]:
        days = (start_ms // DAY_MS, end_ms // DAY_MS)
        known = self._known_series.get(name)
        if known is None or known[0] != days:
            before = known[1] if known else {}
            known = self._known_series[name] = (days, self._join_days(name, before, *days))
        return list(known[1].values())

    def _join_days(
        self, name: str, series_list: Mapping[Key, ExposedSeries], first_day: int, last_day: int
    ) -> dict[Key, ExposedSeries]:
        """The series of some days, of which the first was probably requested before."""
        before = self._days.get(name, {})
        days = range(first_day, last_day + 1)
        made = {day: before.get(day) or self._of_day(name, day) for day in days}
        self._days[name] = made
        found: Segments = {}
        for segments in made.values():
            for key, more in segments.items():
                found[key] = (*found[key], *more) if key in found else more
        return {
            key: self._series_of(name, key[1], joined(segments), series_list.get(key))
            for key, segments in found.items()
        }

    def _series_of(
        self,
        name: str,
        labels: Pairs,
        segments: tuple[AnySegment, ...],
        before: ExposedSeries | None,
    ) -> ExposedSeries:
        """With the labels of the days before, which were written already."""
        if before is not None:
            return ExposedSeries(
                self.target, before.labels, segments, labels, label_sets=before.label_sets
            )
        return ExposedSeries(self.target, self.target.labelled(name, labels), segments, labels)

    def _of_day(self, name: str, day: int) -> Segments:
        segments = self.exporter.segments(name, day, self._exposed(day))
        reachable = self.target.reachable
        return {key: within(parts, reachable) for key, parts in segments.items()}

    def _exposed(self, day: int) -> list[ExposedIntervals]:
        known = self._groups.get(day)
        if known is None:
            while len(self._groups) >= LARGEST_CACHE:
                self._groups.popitem(last=False)
            known = self._groups[day] = _grouped(
                self.exporter.intervals.day(day), self.exporter.labels
            )
        return known


def _grouped(
    intervals: Iterable[EntityInterval], labels: Callable[[EntityInterval], Iterable[Pairs]]
) -> list[ExposedIntervals]:
    found: dict[tuple[int, Pairs], ExposedIntervals] = {}
    # Steps of one set of holders share it, so its groups are looked up once.
    same: tuple[int, int] = (0, 0)
    groups: list[ExposedIntervals] = []
    for interval in intervals:
        current = (id(interval.entity), id(interval.step.holders))
        if current != same:
            same = current
            groups = []
            for exposed in labels(interval):
                key = (id(interval.entity), exposed)
                if key not in found:
                    found[key] = ExposedIntervals(interval.entity, exposed, [])
                groups.append(found[key])
        for group in groups:
            group.intervals.append(interval)
    return list(found.values())


def _energy(
    group: ExposedIntervals, intervals: NodeIntervals, divisor: int
) -> tuple[AnySegment, ...]:
    """The card's energy, in microjoules by `divisor`."""
    import numpy as np

    found = []
    for run in group.runs:
        bases = np.array([intervals.microjoules(each) for each in run.intervals], dtype=np.int64)
        watts = np.array([each.milliwatts for each in run.intervals], dtype=np.int64)
        # A milliwatt for a millisecond is a microjoule.
        found.append(run.swept(Slopes(run.track.starts, bases, watts, divisor)))
    return tuple(found)


class Dcgm:
    """The dcgm-exporter of a node, or two: each set of names in its own windows of time."""

    def __init__(self, intervals: NodeIntervals, style: dcgm.Style) -> None:
        self.intervals = intervals
        self.style = style
        node = intervals.use.node
        every: tuple[DcgmNames, ...] = ("old", "new")
        seconds = {names: node.dcgm_windows(names) for names in every}
        self.windows = {names: _milliseconds(found) for names, found in seconds.items() if found}
        self.sets = {names: dcgm.by_name(dcgm.fields_of(style, names)) for names in self.windows}
        self.fields = {name: field for of in self.sets.values() for name, field in of.items()}
        # How many fields a card has, and how many a MIG instance.
        self._counts = {
            names: (len(of), sum(field.of_instances for field in of.values()))
            for names, of in self.sets.items()
        }

    def names(self) -> Sequence[str]:
        return tuple(self.fields)

    def labels(self, interval: EntityInterval) -> Iterator[Pairs]:
        own = dcgm.identity(self.intervals.use.node, interval.entity, self.style)
        for pod in dcgm.attributions(interval.entity, interval.step, self.style):
            yield (*own, *pod)

    def segments(self, name: str, day: int, groups: Iterable[ExposedIntervals]) -> Segments:
        found: Segments = {}
        groups = list(groups)
        for names, windows in self.windows.items():
            field = self.sets[names].get(name)
            for group in groups if field is not None else ():
                assert field is not None
                if field.of_instances or group.entity.gpu_instance_id is None:
                    key = (id(group.entity), dcgm.labels_of(group.labels, names))
                    values = within(self._values(field, group), windows)
                    if values:
                        found[key] = (*found.get(key, ()), *values)
        return found

    def _values(self, field: dcgm.Field, group: ExposedIntervals) -> tuple[AnySegment, ...]:
        if divisor := dcgm.MICROJOULES.get(field.head.name):
            return _energy(group, self.intervals, divisor)

        def value(interval: EntityInterval) -> float:
            reading = dcgm.DcgmReading(
                interval.entity, interval.step, interval.milliwatts, interval.incident
            )
            return field.value(reading)

        return group.levels(value)

    def line_counts(self, start_ms: int, end_ms: int) -> LineCounts:
        for entity, step, from_ms, until_ms in self.intervals.held(start_ms, end_ms):
            sets = sum(1 for _ in dcgm.attributions(entity, step, self.style))
            for names, windows in self.windows.items():
                fields = self._counts[names][entity.gpu_instance_id is not None]
                for low, end in windows:
                    high = until_ms if end is None else min(until_ms, end)
                    if max(low, from_ms) < high:
                        yield max(low, from_ms), high, fields * sets


def _milliseconds(
    windows: Sequence[tuple[int, int | None]],
) -> tuple[tuple[int, int | None], ...]:
    return tuple((low * 1000, None if end is None else end * 1000) for low, end in windows)


class Amd:
    """AMD's device-metrics-exporter."""

    def __init__(self, intervals: NodeIntervals) -> None:
        self.intervals = intervals
        self.metrics = {metric.head.name: metric for metric in amd.METRICS}

    @property
    def node(self) -> Node:
        return self.intervals.use.node

    def names(self) -> Sequence[str]:
        return (*self.metrics, amd.NODES)

    def labels(self, interval: EntityInterval) -> Iterator[Pairs]:
        yield (*amd.identity(self.node, interval.entity), *amd.attribution(interval.step))

    def segments(self, name: str, day: int, groups: Iterable[ExposedIntervals]) -> Segments:
        if name == amd.NODES:
            count = float(amd.nodes_total(self.node))
            whole = ValueSegment(day * DAY_MS, (day + 1) * DAY_MS, count)
            return {(0, (("hostname", self.node.name),)): (whole,)}
        metric = self.metrics[name]
        return {
            (id(group.entity), (*group.labels, *metric.extra)): self._values(metric, group)
            for group in groups
        }

    def _values(self, metric: amd.AmdMetric, group: ExposedIntervals) -> tuple[AnySegment, ...]:
        if metric.head.name == amd.ENERGY and not group.entity.partition_id:
            return _energy(group, self.intervals, divisor=1)

        def value(interval: EntityInterval) -> float:
            reading = amd.AmdReading(
                interval.entity,
                interval.step,
                interval.milliwatts,
                interval.card_pct,
                interval.incident,
            )
            return metric.value(reading)

        return group.levels(value)

    def line_counts(self, start_ms: int, end_ms: int) -> LineCounts:
        first_day, last_day = start_ms // DAY_MS, end_ms // DAY_MS
        yield first_day * DAY_MS, (last_day + 1) * DAY_MS, 1  # the number of cards
        for _, _, from_ms, until_ms in self.intervals.held(start_ms, end_ms):
            yield from_ms, until_ms, len(self.metrics)
