"""Series as intervals of one value, before anybody scraped them.

Put here: how lines of object versions become the lives of series.
Not here: the lines (`fake_gpu.exporters`), the times of samples (`scrapes`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fake_gpu.exporters.kube_state_metrics.forms import Family
from fake_gpu.kubernetes.objects import ObjectHistory, Version
from fake_gpu.prometheus.series import LabelPairs, LabelSet
from fake_gpu.prometheus.targets import Target

# Later than anything: the end of what has no end.
NO_END = 1 << 62
DAY_MS = 86_400_000
# How many (family, days) are kept; a month read day by day needs one of each family.
LARGEST_CACHE = 512


@dataclass(frozen=True, slots=True)
class Segment:
    """The series is exposed with this value during `[from_ms, until_ms)`."""

    from_ms: int
    until_ms: int
    value: float


@dataclass(slots=True)
class Life:
    """One series of one target: its labels without external ones, and its segments in order."""

    target: Target
    labels: LabelPairs
    segments: tuple[Segment, ...]
    label_sets: dict[object, LabelSet] = field(default_factory=dict)  # per external labels

    def label_set(self, external: LabelPairs) -> LabelSet:
        known = self.label_sets.get(external)
        if known is None:
            own = dict(self.labels)
            extra = [(name, value) for name, value in external if name not in own]
            known = self.label_sets[external] = LabelSet([*self.labels, *extra])
        return known


def joined(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Segments in order, with those joined that adjoin and have one value."""
    result: list[Segment] = []
    for segment in segments:
        if result and result[-1].until_ms == segment.from_ms and _same(result[-1], segment):
            result[-1] = Segment(result[-1].from_ms, segment.until_ms, segment.value)
        else:
            result.append(segment)
    return tuple(result)


def _same(one: Segment, other: Segment) -> bool:
    return one.value == other.value or (one.value != one.value and other.value != other.value)


class ObjectSeries:
    """kube-state-metrics over one cluster's object history."""

    def __init__(self, history: ObjectHistory, target: Target, families: Sequence[Family]) -> None:
        self.target = target
        self.families: Mapping[str, Family] = {family.head.name: family for family in families}
        self._history = history
        self._days: dict[str, _Days] = {}
        self._lives: OrderedDict[tuple[str, int, int], list[Life]] = OrderedDict()

    def names(self) -> Iterable[str]:
        return self.families

    def lives(self, name: str, start_ms: int, end_ms: int) -> list[Life]:
        """The series of a family that may be exposed in the closed range."""
        key = (name, start_ms // DAY_MS, end_ms // DAY_MS)
        known = self._lives.get(key)
        if known is None:
            known = self._made(self.families[name], key[1], key[2])
            while len(self._lives) >= LARGEST_CACHE:
                self._lives.popitem(last=False)
            self._lives[key] = known
        return known

    def _made(self, family: Family, first_day: int, last_day: int) -> list[Life]:
        found: dict[LabelPairs, list[Segment]] = {}
        for version in self._versions(family.kind, first_day, last_day):
            until = NO_END if version.until_at is None else version.until_at * 1000
            seen: set[LabelPairs] = set()
            for line in family.lines(version.object):
                labels = self.target.labelled(family.head.name, line.labels)
                # Of two equal series in one scrape, Prometheus keeps the first.
                if labels not in seen:
                    seen.add(labels)
                    segment = Segment(version.from_at * 1000, until, line.value)
                    found.setdefault(labels, []).append(segment)
        return [Life(self.target, labels, joined(parts)) for labels, parts in found.items()]

    def _versions(self, kind: str, first_day: int, last_day: int) -> list[Version]:
        days = self._days.get(kind)
        if days is None:
            days = self._days[kind] = _Days(self._history.versions(kind))
        return days.between(first_day, last_day)


class _Days:
    """Versions by the days that they touch."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self._open: list[Version] = []
        self._days: dict[int, list[Version]] = {}
        for version in versions:
            if version.until_at is None:
                self._open.append(version)
                continue
            first = version.from_at * 1000 // DAY_MS
            last = (version.until_at * 1000 - 1) // DAY_MS
            for day in range(first, last + 1):
                self._days.setdefault(day, []).append(version)

    def between(self, first_day: int, last_day: int) -> list[Version]:
        found = {
            version.change.resource_version: version
            for day in range(first_day, last_day + 1)
            for version in self._days.get(day, ())
        }
        end_ms = (last_day + 1) * DAY_MS
        still_open = [version for version in self._open if version.from_at * 1000 < end_ms]
        return sorted([*found.values(), *still_open], key=lambda version: version.from_at)
