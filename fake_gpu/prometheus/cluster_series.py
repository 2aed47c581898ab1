"""All series of one cluster, in each Prometheus replica that scraped them.

Put here: from the lives of series to their samples in a window.
Not here: which lives there are (`object_series`, `device_series`), several clusters (`source`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fake_gpu.estate.model import Cluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.life_sources import sources_of
from fake_gpu.prometheus.matchers import Matcher, all_match
from fake_gpu.prometheus.scrapes import Collection, Grid, Schedule
from fake_gpu.prometheus.segments import NO_END, AnySegment, Life, Segment
from fake_gpu.prometheus.series import (
    AnyPiece,
    LabelPairs,
    Piece,
    RawSeries,
    TimeBlock,
    VaryingPiece,
)
from fake_gpu.prometheus.targets import Target, targets_of

# How far a staleness marker may lie behind the end of a series: the longest interval of a scrape.
LONGEST_INTERVAL_MS = 600_000


class ClusterSeries:
    """Selects and samples what one cluster's Prometheus replicas scraped."""

    def __init__(self, cluster: Cluster, history: ObjectHistory) -> None:
        self.cluster = cluster
        self.replicas = replicas_of(cluster)
        self.targets = targets_of(cluster)
        self.sources = sources_of(cluster, history, self.targets)
        self._grids: dict[tuple[str, int], Grid] = {}

    def grid(self, target: Target, replica: int) -> Grid:
        """The times of a target's samples as they reach the Thanos."""
        key = (target.name, replica)
        if key not in self._grids:
            schedule = Schedule(f"{target.name}#{replica}", target.interval_ms)
            seconds = self.cluster.monitoring.collect_interval_seconds
            if seconds is None:
                self._grids[key] = Grid(schedule.times)
            else:
                collection = Collection(f"{self.cluster.cluster_id}#collector", seconds * 1000)
                self._grids[key] = Grid(
                    lambda start, end: collection.taken(schedule.times, start, end)
                )
        return self._grids[key]

    def select(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> Iterator[RawSeries]:
        possible = [
            (number, external)
            for number, external in enumerate(self.replicas)
            if _possible(matchers, dict(external))
        ]
        if not possible:
            return
        named = [matcher for matcher in matchers if matcher.name == "__name__"]
        others = [matcher for matcher in matchers if matcher.name != "__name__"]
        for source in self.sources:
            for name in source.names():
                if not all(matcher.test(name) for matcher in named):
                    continue
                for life in source.lives(name, start_ms, end_ms):
                    for number, external in possible:
                        label_set = life.label_set(external)
                        if not others or all_match(others, label_set.mapping):
                            yield from self._sampled(life, number, external, start_ms, end_ms)

    def _sampled(
        self, life: Life, number: int, external: LabelPairs, start_ms: int, end_ms: int
    ) -> Iterator[RawSeries]:
        grid = self.grid(life.target, number)
        pieces = tuple(pieces_of(life.segments, grid, start_ms, end_ms))
        stale = self._stale(life.segments, grid, start_ms, end_ms)
        if pieces or stale:
            yield RawSeries(life.label_set(external), pieces, stale)

    def _stale(
        self, segments: Sequence[AnySegment], grid: Grid, start_ms: int, end_ms: int
    ) -> tuple[int, ...]:
        """At the first scrape that did not find the series any more."""
        if not self.cluster.monitoring.staleness_markers:
            return ()
        markers = []
        for position, segment in enumerate(segments):
            if not start_ms - LONGEST_INTERVAL_MS <= segment.until_ms <= end_ms:
                continue
            back = segments[position + 1].from_ms if position + 1 < len(segments) else NO_END
            marker = _first_time(grid, segment.until_ms)
            if marker is not None and start_ms <= marker <= end_ms and marker < back:
                markers.append(marker)
        return tuple(markers)


def replicas_of(cluster: Cluster) -> list[LabelPairs]:
    """The external labels of each replica; a collector's samples have no replica."""
    monitoring = cluster.monitoring
    external = dict(monitoring.external_labels) or {
        "cluster": cluster.name,
        "clusterID": cluster.cluster_id,
    }
    if monitoring.collect_interval_seconds:
        return [tuple(sorted(external.items()))]
    return [
        tuple(sorted({**external, monitoring.replica_label: replica_name(number)}.items()))
        for number in range(max(1, monitoring.prometheus_replicas))
    ]


def replica_name(number: int) -> str:
    return f"prometheus-k8s-{number}"


def _possible(matchers: Sequence[Matcher], external: Mapping[str, str]) -> bool:
    return all(m.test(external[m.name]) for m in matchers if m.name in external)


def pieces_of(
    segments: Sequence[AnySegment], grid: Grid, start_ms: int, end_ms: int
) -> Iterator[AnyPiece]:
    """The samples of a series in the closed range: where its segments meet the scrapes."""
    inside = [s for s in segments if s.from_ms <= end_ms and s.until_ms > start_ms]
    if not inside:
        return
    for block in grid.blocks(max(start_ms, inside[0].from_ms), min(end_ms, inside[-1].until_ms)):
        for segment in inside:
            low, high = block.cut(max(start_ms, segment.from_ms), min(end_ms, segment.until_ms - 1))
            if low < high:
                yield _piece(block, low, high, segment)


def _piece(block: TimeBlock, low: int, high: int, segment: AnySegment) -> AnyPiece:
    if isinstance(segment, Segment):
        return Piece(block, low, high, segment.value)
    return VaryingPiece(block, low, high, list(map(segment.at, block.times[low:high])))


def _first_time(grid: Grid, from_ms: int) -> int | None:
    for block in grid.blocks(from_ms, from_ms + LONGEST_INTERVAL_MS):
        low, _ = block.cut(from_ms, from_ms + LONGEST_INTERVAL_MS)
        if low < len(block.times):
            return block.times[low]
    return None
