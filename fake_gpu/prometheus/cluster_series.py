"""All series of one cluster, in each Prometheus replica that scraped them.

Put here: from the lives of series to their samples in a window.
Not here: which lives there are (`object_series`, `device_series`), several clusters (`source`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fake_gpu.estate.model import Cluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.faults import SampleFaults
from fake_gpu.prometheus.life_faults import EXTERNAL
from fake_gpu.prometheus.life_sources import sources_of
from fake_gpu.prometheus.matchers import Matcher, all_match
from fake_gpu.prometheus.scrape_faults import LARGEST_SKEW_MS, WRITTEN, Sampling, arrived
from fake_gpu.prometheus.scrapes import Grid
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

    def __init__(
        self,
        cluster: Cluster,
        history: ObjectHistory,
        faults: SampleFaults | None = None,
        cluster_ids: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.faults = faults or SampleFaults(cluster.cluster_id)
        self.replicas = replicas_of(cluster)
        self.targets = targets_of(cluster)
        ids = cluster_ids or {}
        self.sources = sources_of(cluster, history, self.targets, self.faults, ids)
        self._late = self.faults.of("late_arrival")
        self._relabelled = bool(self.faults.of(*EXTERNAL))
        self._slack_ms = LARGEST_SKEW_MS if self.faults.of(*WRITTEN) else 0
        self._grids: dict[tuple[str, int, str], Grid] = {}

    def grid(self, target: Target, replica: int, metric: str) -> Grid:
        """The times of a target's samples as they reach the Thanos."""
        seconds = self.cluster.monitoring.collect_interval_seconds
        collect_ms = None if seconds is None else seconds * 1000
        sampling = Sampling(target, replica, metric, self.faults, collect_ms)
        key = sampling.key()
        if key not in self._grids:
            self._grids[key] = sampling.grid()
        return self._grids[key]

    def select(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, now_ms: int
    ) -> Iterator[RawSeries]:
        """The series with samples, or with the marker of their end, in the closed range."""
        start_ms = max(start_ms, self.cluster.created_at * 1000)
        possible = [
            (number, external)
            for number, external in enumerate(self.replicas)
            if self._relabelled or _possible(matchers, dict(external))
        ]
        if not possible or start_ms > end_ms:
            return
        named = [matcher for matcher in matchers if matcher.name == "__name__"]
        others = [matcher for matcher in matchers if matcher.name != "__name__"]
        for source in self.sources:
            for name in source.names():
                if not all(matcher.test(name) for matcher in named):
                    continue
                lives = source.lives(name, start_ms, end_ms)
                for number, external in possible:
                    yield from self._sampled(
                        name, lives, number, external, others, start_ms, end_ms, now_ms
                    )

    def _sampled(
        self,
        name: str,
        lives: Sequence[Life],
        number: int,
        external: LabelPairs,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        now_ms: int,
    ) -> Iterator[RawSeries]:
        earliest = start_ms - LONGEST_INTERVAL_MS
        replica_label = self.cluster.monitoring.replica_label
        grids: dict[str, Grid] = {}
        for life in lives:
            segments = life.segments
            if not segments or segments[0].from_ms > end_ms or segments[-1].until_ms < earliest:
                continue
            label_set = life.label_set(external, replica_label)
            if matchers and not all_match(matchers, label_set.mapping):
                continue
            grid = grids.get(life.target.name)
            if grid is None:
                grid = grids[life.target.name] = self.grid(life.target, number, name)
            pieces = tuple(pieces_of(segments, grid, start_ms, end_ms, self._slack_ms))
            if self._late:
                pieces = tuple(self._arrived(pieces, life, name, now_ms))
            stale = self._stale(segments, grid, start_ms, end_ms)
            if pieces or stale:
                yield RawSeries(label_set, pieces, stale)

    def _arrived(
        self, pieces: Sequence[AnyPiece], life: Life, metric: str, now_ms: int
    ) -> Iterator[AnyPiece]:
        """The samples that can be seen by now."""
        for piece in pieces:
            block, fault = arrived(piece.block, self._late, metric, life.target, now_ms)
            if fault is None:
                yield piece
                continue
            self.faults.fire(fault, now_ms // 1000, f"{metric} of {life.target.name}")
            seen = set(block.times)
            numbers = zip(piece.times, piece.values(), strict=True)
            kept = {at: number for at, number in numbers if at in seen}
            if kept:
                times = TimeBlock(list(kept))
                yield VaryingPiece(times, 0, len(kept), list(kept.values()))

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
            marker = grid.first_time(segment.until_ms, segment.until_ms + LONGEST_INTERVAL_MS)
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
    segments: Sequence[AnySegment], grid: Grid, start_ms: int, end_ms: int, slack_ms: int
) -> Iterator[AnyPiece]:
    """The samples of a series in the closed range: where its segments meet the scrapes.

    With `slack_ms`, times may be written so far from when the scrape really was.
    """
    position, count = 0, len(segments)
    low_ms = max(start_ms, segments[0].from_ms - slack_ms)
    high_ms = min(end_ms, segments[-1].until_ms + slack_ms)
    for block in grid.blocks(low_ms, high_ms):
        first, last = block.cut(start_ms, end_ms)
        if first >= last:
            continue
        while position < count and segments[position].until_ms <= block.real[first]:
            position += 1
        for segment in segments[position:]:
            if segment.from_ms > block.real[last - 1]:
                break
            low, high = block.found(segment.from_ms, segment.until_ms)
            low, high = max(low, first), min(high, last)
            if low < high:
                yield _piece(block, low, high, segment)


def _piece(block: TimeBlock, low: int, high: int, segment: AnySegment) -> AnyPiece:
    if isinstance(segment, Segment):
        return Piece(block, low, high, segment.value)
    return VaryingPiece(block, low, high, list(map(segment.at, block.real[low:high])))
