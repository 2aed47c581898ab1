"""kube-state-metrics and the scheduler over a cluster's object history.

Put here: how lines of object versions become series.
Not here: the lines (`fake_gpu.exporters`), the times of samples (`scrapes`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from fake_gpu.exporters.exposition import Pairs
from fake_gpu.exporters.kube_state_metrics.forms import Document, ObjectMetric
from fake_gpu.kubernetes.objects import ObjectHistory, Version
from fake_gpu.prometheus.label_sets import LabelPairs
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.segments import (
    DAY_MS,
    NO_END,
    AnySegment,
    ExposedSeries,
    ValueSegment,
    joined,
)
from fake_gpu.prometheus.shapes import Shapes
from fake_gpu.prometheus.targets import Target

# How many (family, days) are kept; a month read day by day needs one of each family.
LARGEST_CACHE = 512
# Documents of nodes that are kept, of some 10 kB each.
LARGEST_NODE_CACHE = 256
# So few are looked at one by one.
FEW = 64
# A clock that is ahead writes a sample up to six hours away from its scrape.
MARGIN_MS = 7 * 3_600_000


class ObjectSeries:
    """The series of one exporter of objects."""

    def __init__(
        self,
        history: ObjectHistory,
        target: Target,
        families: Sequence[ObjectMetric],
        objects_with_series: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        """`objects_with_series`: the UIDs of the objects with series of a family, if few."""
        self.target = target
        self.families: Mapping[str, ObjectMetric] = {
            family.head.name: family for family in families
        }
        self._history = history
        self._objects_with_series = objects_with_series or {}
        self._days: dict[str, _Days] = {}
        self._nodes: OrderedDict[int, Document] = OrderedDict()
        self._known_series: OrderedDict[tuple[str, int, int], _Made] = OrderedDict()

    def names(self) -> Iterable[str]:
        return self.families

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> list[ExposedSeries]:
        """The series of a family that may be exposed in the closed range."""
        key = (name, *_days(start_ms, end_ms))
        known = self._known_series.get(key)
        if known is None:
            known = _Made(self._build_series(self.families[name], key[1], key[2]))
            while len(self._known_series) >= LARGEST_CACHE:
                self._known_series.popitem(last=False)
            self._known_series[key] = known
        return known.between(start_ms, end_ms)

    def shapes(self, name: str, start_ms: int, end_ms: int, matchers: Sequence[Matcher]) -> Shapes:
        """The same, for a table; they are not remembered."""
        family = self.families[name]
        found = Shapes(self.target, name, matchers)
        for version in self._versions_with_series(family, *_days(start_ms, end_ms)):
            seen_until: dict[tuple[str, ...], int] = {}
            for line in family.lines(self._document(version)):
                names, values = zip(*line.labels, strict=True)
                found.add(names, values, version.from_at, version.until_at, line.value, seen_until)
        return found

    def _build_series(
        self, family: ObjectMetric, first_day: int, last_day: int
    ) -> list[ExposedSeries]:
        found: dict[LabelPairs, list[AnySegment]] = {}
        exposed: dict[LabelPairs, Pairs] = {}
        for version in self._versions_with_series(family, first_day, last_day):
            until = NO_END if version.until_at is None else version.until_at * 1000
            seen: set[LabelPairs] = set()
            for line in family.lines(self._document(version)):
                labels = tuple(self.target.labelled(family.head.name, line.labels).items())
                # Of two equal series in one scrape, Prometheus keeps the first.
                if labels not in seen:
                    seen.add(labels)
                    segment = ValueSegment(version.from_at * 1000, until, line.value)
                    found.setdefault(labels, []).append(segment)
                    exposed.setdefault(labels, line.labels)
        return [
            ExposedSeries(self.target, dict(labels), joined(parts), exposed[labels])
            for labels, parts in found.items()
        ]

    def _document(self, version: Version) -> Document:
        """Nodes are few and large, and most families are about them."""
        if version.change.kind != "Node":
            return version.object
        number = version.change.resource_version
        known = self._nodes.get(number)
        if known is None:
            while len(self._nodes) >= LARGEST_NODE_CACHE:
                self._nodes.popitem(last=False)
            known = self._nodes[number] = version.object
        return known

    def _versions_with_series(
        self, family: ObjectMetric, first_day: int, last_day: int
    ) -> list[Version]:
        only = self._objects_with_series.get(family.head.name)
        if only is not None and not only:
            return []
        versions = self._versions(family.kind, first_day, last_day)
        return [each for each in versions if only is None or each.change.uid in only]

    def _versions(self, kind: str, first_day: int, last_day: int) -> list[Version]:
        days = self._days.get(kind)
        if days is None:
            days = self._days[kind] = _Days(self._history.versions(kind))
        return days.between(first_day, last_day)


def _days(start_ms: int, end_ms: int) -> tuple[int, int]:
    """The first and the last one; whole hours end with the first instant of the next one."""
    first_day = start_ms // DAY_MS
    return first_day, max(first_day, (end_ms - 1) // DAY_MS)


class _Made:
    """The series of some days, of which an hour has few."""

    def __init__(self, series_list: list[ExposedSeries]) -> None:
        import numpy as np

        self._known_series = series_list
        self._from = np.array(
            [series.segments[0].from_ms for series in series_list], dtype=np.int64
        )
        self._until = np.array(
            [series.segments[-1].until_ms for series in series_list], dtype=np.int64
        )

    def between(self, start_ms: int, end_ms: int) -> list[ExposedSeries]:
        """Those that may have a sample there, or the marker of their end."""
        if len(self._known_series) < FEW:
            return self._known_series
        near = (self._from <= end_ms + MARGIN_MS) & (self._until >= start_ms - MARGIN_MS)
        return [self._known_series[position] for position in near.nonzero()[0].tolist()]


class _Days:
    """Versions by the days that they touch; the midnight at its end is also a day's."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self._open: list[Version] = []
        self._days: dict[int, list[Version]] = {}
        for version in versions:
            if version.until_at is None:
                self._open.append(version)
                continue
            first = (version.from_at * 1000 - 1) // DAY_MS
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
        still_open = [version for version in self._open if version.from_at * 1000 <= end_ms]
        return sorted([*found.values(), *still_open], key=lambda version: version.from_at)
