"""The samples of an estate, as the one Thanos above all its clusters holds them.

Put here: which series of which cluster match, and the samples that their scrapes took.
Not here: what a querier makes of them (`view`), faults (`faults`).

Nothing walks from scrape to scrape: a series is a few segments of one value, the times are shared
by all series of a target, and a sample is where the two meet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Protocol

from domain.clock import Clock
from fake_gpu.estate.model import Cluster, Estate
from fake_gpu.exporters.kube_state_metrics.catalogue import families
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.histories import NO_END, Life, ObjectSeries, Segment
from fake_gpu.prometheus.matchers import Matcher, all_match
from fake_gpu.prometheus.scrapes import Collection, Grid, Schedule
from fake_gpu.prometheus.series import AnyPiece, LabelPairs, Piece, RawSeries
from fake_gpu.prometheus.targets import KUBE_STATE_METRICS, Target, targets_of

# How far a staleness marker may lie behind the end of a series: the longest interval of a scrape.
LONGEST_INTERVAL_MS = 600_000


class LifeSource(Protocol):
    """Where the lives of some metrics come from."""

    def names(self) -> Iterable[str]: ...

    def lives(self, name: str, start_ms: int, end_ms: int) -> Sequence[Life]: ...


class TargetSeries:
    """`up`: one series per target, 1 while it can be reached."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self.up = [
            Life(target, target.labelled_up("up"), _up_segments(target)) for target in targets
        ]

    def names(self) -> Iterable[str]:
        return ("up",)

    def lives(self, name: str, start_ms: int, end_ms: int) -> Sequence[Life]:
        return self.up


def _up_segments(target: Target) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    for from_ms, end in target.present:
        until_ms = NO_END if end is None else end
        at = from_ms
        for reach_from, reach_end in target.reachable:
            reach_until = NO_END if reach_end is None else reach_end
            low, high = max(at, reach_from), min(until_ms, reach_until)
            if low >= high:
                continue
            if at < low:
                segments.append(Segment(at, low, 0.0))
            segments.append(Segment(low, high, 1.0))
            at = high
        if at < until_ms:
            segments.append(Segment(at, until_ms, 0.0))
    return tuple(segments)


class ClusterSeries:
    """All series of one cluster, in each replica that scraped them."""

    def __init__(self, cluster: Cluster, history: ObjectHistory) -> None:
        self.cluster = cluster
        monitoring = cluster.monitoring
        external = dict(monitoring.external_labels) or {
            "cluster": cluster.name,
            "clusterID": cluster.cluster_id,
        }
        collected = monitoring.collect_interval_seconds
        count = 1 if collected else max(1, monitoring.prometheus_replicas)
        self.replicas: list[LabelPairs] = [
            tuple(sorted(external.items()))
            if collected
            else tuple(sorted({**external, monitoring.replica_label: replica_name(n)}.items()))
            for n in range(count)
        ]
        self.targets = targets_of(cluster)
        self.sources = list(self._sources(history))
        self._grids: dict[tuple[str, int], Grid] = {}

    def _sources(self, history: ObjectHistory) -> Iterator[LifeSource]:
        yield TargetSeries(self.targets)
        for target in self.targets:
            if target.job == KUBE_STATE_METRICS:
                yield ObjectSeries(history, target, families())

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
        for source in self.sources:
            for name in source.names():
                if all(matcher.test(name) for matcher in named):
                    for life in source.lives(name, start_ms, end_ms):
                        for number, external in possible:
                            yield from self._sampled(
                                life, number, external, matchers, start_ms, end_ms
                            )

    def _sampled(
        self,
        life: Life,
        number: int,
        external: LabelPairs,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
    ) -> Iterator[RawSeries]:
        label_set = life.label_set(external)
        if not all_match(matchers, label_set.mapping):
            return
        grid = self.grid(life.target, number)
        pieces = list(_pieces(life.segments, grid, start_ms, end_ms))
        stale = self._stale(life.segments, grid, start_ms, end_ms)
        if pieces or stale:
            yield RawSeries(label_set, tuple(pieces), stale)

    def _stale(
        self, segments: Sequence[Segment], grid: Grid, start_ms: int, end_ms: int
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


def _possible(matchers: Sequence[Matcher], external: Mapping[str, str]) -> bool:
    return all(m.test(external[m.name]) for m in matchers if m.name in external)


def _pieces(
    segments: Sequence[Segment], grid: Grid, start_ms: int, end_ms: int
) -> Iterator[AnyPiece]:
    inside = [s for s in segments if s.from_ms <= end_ms and s.until_ms > start_ms]
    if not inside:
        return
    for block in grid.blocks(max(start_ms, inside[0].from_ms), min(end_ms, inside[-1].until_ms)):
        for segment in inside:
            low, high = block.cut(max(start_ms, segment.from_ms), min(end_ms, segment.until_ms - 1))
            if low < high:
                yield Piece(block, low, high, segment.value)


def _first_time(grid: Grid, from_ms: int) -> int | None:
    for block in grid.blocks(from_ms, from_ms + LONGEST_INTERVAL_MS):
        low, _ = block.cut(from_ms, from_ms + LONGEST_INTERVAL_MS)
        if low < len(block.times):
            return block.times[low]
    return None


def replica_name(number: int) -> str:
    return f"prometheus-k8s-{number}"


class EstateSeries:
    """Implements `series.SeriesSource` for a whole estate; shows nothing that is yet to come."""

    def __init__(
        self, estate: Estate, histories: Mapping[str, ObjectHistory], clock: Clock
    ) -> None:
        self.estate = estate
        self.clock = clock
        self.clusters = [
            ClusterSeries(cluster, histories[cluster.cluster_id]) for cluster in estate.clusters
        ]
        # Caches are shared between requests, and a server answers several at a time.
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        return round(self.clock.now().astimezone(UTC).timestamp() * 1000)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[RawSeries]:
        with self._lock:
            end_ms = min(end_ms, self.now_ms())
            found = [
                series
                for cluster in self.clusters
                for series in cluster.select(matchers, start_ms, end_ms)
            ]
        return sorted(found, key=lambda series: series.key)
