"""A series before any scrape: intervals with one value, or with many.

Put here: segments, joining and clipping them, and the value that a scrape reads from one.
Not here: where they come from (`object_series`, `device_series`, `target_series`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fake_gpu.exporters.exposition import Pairs
from fake_gpu.prometheus.label_sets import LabelLayout, LabelPairs, Labels, LabelSet
from fake_gpu.prometheus.sweeps import Sweep
from fake_gpu.prometheus.targets import Target

# In milliseconds, later than any time: the end of an interval without an end.
NO_END = 1 << 62
DAY_MS = 86_400_000
# Cached lists of label names of a replica: a few for each metric.
LARGEST_LAYOUT_CACHE = 4096


@dataclass(slots=True)  # not frozen, and so made in a third of the time
class ValueSegment:
    """The series is exposed with this value during `[from_ms, until_ms)`."""

    from_ms: int
    until_ms: int
    value: float

    def clipped(self, from_ms: int, until_ms: int) -> ValueSegment:
        return ValueSegment(from_ms, until_ms, self.value)

    def continues(self, other: AnySegment) -> bool:
        """Whether `other`, which begins where this one ends, has the same value."""
        if not isinstance(other, ValueSegment):
            return False
        return self.value == other.value or (
            self.value != self.value and other.value != other.value
        )


@dataclass(frozen=True, slots=True)
class Noise:
    """A number that differs from scrape to scrape around a middle."""

    from_ms: int
    until_ms: int
    name: str
    middle: float

    def at(self, time_ms: int) -> float:
        digest = hashlib.sha256(f"{self.name}\n{time_ms}".encode()).digest()
        return round(self.middle * (0.75 + digest[0] / 512), 9)

    def clipped(self, from_ms: int, until_ms: int) -> Noise:
        return Noise(from_ms, until_ms, self.name, self.middle)

    def continues(self, other: AnySegment) -> bool:
        return False


AnySegment = ValueSegment | Noise | Sweep
# (from, until, lines), in milliseconds; overlapping ones add up.
LineCounts = Iterator[tuple[int, int, int]]


class ExposedSeriesSource(Protocol):
    """A source of the exposed series of some metrics."""

    def names(self) -> Iterable[str]: ...

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> Sequence[ExposedSeries]: ...


class PrometheusReplica:
    """One Prometheus replica: its number, and the labels that it adds to all its series."""

    def __init__(self, number: int, external: LabelPairs, label: str) -> None:
        self.number = number
        self.external = dict(external)
        self.label = label  # distinguishes replicas
        self._layouts: dict[tuple[str, ...], LabelLayout] = {}

    def label_set(self, labels: Labels) -> LabelSet:
        """The labels as the Thanos shows them; a series' own labels win over external ones."""
        names = tuple(labels)
        layout = self._layouts.get(names)
        if layout is None:
            if len(self._layouts) >= LARGEST_LAYOUT_CACHE:
                self._layouts.clear()
            layout = self._layouts[names] = self.layout(names, {})
        return LabelSet.laid_out(layout, tuple(labels.values()))

    def layout(self, own: Sequence[str], fixed: Labels) -> LabelLayout:
        """Of series with values of their own for some names, and always the same for others."""
        return LabelLayout(own, {**_drop_empty(self.external), **fixed})


def _drop_empty(labels: Labels) -> Labels:
    """A label without a value is no label."""
    return {name: value for name, value in labels.items() if value}


@dataclass(slots=True)
class ExposedSeries:
    """One series of one target: its labels without external ones, and its segments in order."""

    target: Target
    labels: Labels
    segments: tuple[AnySegment, ...]
    exposed: Pairs | None = None  # the labels as the exporter wrote them
    external: Mapping[str, str] | None = None  # instead of those of the cluster; a fault
    replica_label: str = ""  # instead of the cluster's name for it; a fault
    label_sets: dict[int, LabelSet] = field(default_factory=dict)  # by the replica's number

    def label_set(self, replica: PrometheusReplica) -> LabelSet:
        """The labels of a replica's sample as Thanos shows them."""
        known = self.label_sets.get(replica.number)
        if known is None:
            known = self.label_sets[replica.number] = self._labelled(replica)
        return known

    def _labelled(self, replica: PrometheusReplica) -> LabelSet:
        if self.external is None and not self.replica_label:
            return replica.label_set(self.labels)
        added = {**replica.external, **(self.external or {})}
        if self.replica_label and replica.label in added:
            added[self.replica_label] = added.pop(replica.label)
        return LabelSet({**_drop_empty(added), **self.labels}.items())


def joined(segments: Iterable[AnySegment]) -> tuple[AnySegment, ...]:
    """Segments in order, with those joined that adjoin and have one value."""
    result: list[AnySegment] = []
    for segment in segments:
        last = result[-1] if result else None
        if last and last.until_ms == segment.from_ms and last.continues(segment):
            result[-1] = last.clipped(last.from_ms, segment.until_ms)
        else:
            result.append(segment)
    return tuple(result)


def within(
    segments: Iterable[AnySegment], intervals: Sequence[tuple[int, int | None]]
) -> tuple[AnySegment, ...]:
    """The parts of segments that lie in any of the intervals (in order, disjoint)."""
    result: list[AnySegment] = []
    for segment in segments:
        for from_ms, end in intervals:
            until_ms = NO_END if end is None else end
            if from_ms <= segment.from_ms and segment.until_ms <= until_ms:
                result.append(segment)
                break
            low, high = max(from_ms, segment.from_ms), min(until_ms, segment.until_ms)
            if low < high:
                result.append(segment.clipped(low, high))
    return tuple(result)
