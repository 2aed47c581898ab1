"""All series of one cluster, in each Prometheus replica that scraped them.

Put here: from the lives of series to their samples in a window.
Not here: which lives there are (`object_series`, `device_series`), several clusters (`source`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from fake_gpu.estate.model import Cluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.faults import SampleFaults
from fake_gpu.prometheus.life_faults import EXTERNAL
from fake_gpu.prometheus.life_sources import sources_of
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.scrape_faults import LARGEST_SKEW_MS, WRITTEN, Sampling, arrived
from fake_gpu.prometheus.scrapes import Grid
from fake_gpu.prometheus.segments import Life, LifeSource
from fake_gpu.prometheus.series import (
    LARGEST_MATCH_CACHE,
    AnyPiece,
    LabelPairs,
    RawSeries,
    TimeBlock,
    VaryingPiece,
)
from fake_gpu.prometheus.targets import Target, targets_of
from fake_gpu.prometheus.window import Window


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
        self._asked: dict[tuple[Matcher, ...], list[tuple[LifeSource, str]]] = {}

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
        for _, found in self._by_name(matchers, start_ms, end_ms, now_ms):
            yield from found

    def names_in(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, now_ms: int, known: set[str]
    ) -> None:
        """Add the names of the metrics that have samples there; what is known is not looked for."""
        for name, found in self._by_name(matchers, start_ms, end_ms, now_ms, known):
            if any(series.pieces for series in found):
                known.add(name)

    def _by_name(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        now_ms: int,
        but: Container[str] = (),
    ) -> Iterator[tuple[str, Iterator[RawSeries]]]:
        """The series of each metric of each source and replica, made as they are taken."""
        window = Window(max(start_ms, self.cluster.created_at * 1000), end_ms, self._slack_ms)
        possible = [
            number
            for number, external in enumerate(self.replicas)
            if self._relabelled or _possible(matchers, dict(external))
        ]
        if not possible or window.start_ms > end_ms:
            return
        others = self._still_open(matchers)
        for source, name in self._named(tuple(m for m in matchers if m.name == "__name__")):
            if name in but:
                continue
            lives = source.lives(name, window.start_ms, end_ms)
            for number in possible:
                yield name, self._sampled(name, lives, number, others, window, now_ms)

    def _named(self, matchers: tuple[Matcher, ...]) -> list[tuple[LifeSource, str]]:
        """Who has the metrics that are asked for; the same query comes again for every hour."""
        known = self._asked.get(matchers)
        if known is None:
            if len(self._asked) >= LARGEST_MATCH_CACHE:
                self._asked.clear()
            known = self._asked[matchers] = [
                (source, name)
                for source in self.sources
                for name in source.names()
                if all(matcher.test(name) for matcher in matchers)
            ]
        return known

    def _still_open(self, matchers: Sequence[Matcher]) -> tuple[Matcher, ...]:
        """The matchers that neither the name nor the replica has answered."""
        answered = {"__name__"}
        if not self._relabelled:
            answered.update(name for external in self.replicas for name, _ in external)
        return tuple(matcher for matcher in matchers if matcher.name not in answered)

    def _sampled(
        self,
        name: str,
        lives: Sequence[Life],
        number: int,
        matchers: tuple[Matcher, ...],
        window: Window,
        now_ms: int,
    ) -> Iterator[RawSeries]:
        external = self.replicas[number]
        monitoring = self.cluster.monitoring
        grids: dict[str, Grid] = {}
        for life in lives:
            segments = life.segments
            if not window.touches(segments):
                continue
            label_set = life.label_set(number, external, monitoring.replica_label)
            if matchers and not label_set.matches(matchers):
                continue
            grid = grids.get(life.target.name)
            if grid is None:
                grid = grids[life.target.name] = self.grid(life.target, number, name)
            pieces = window.pieces(segments, grid)
            if self._late:
                pieces = list(self._arrived(pieces, life, name, now_ms))
            stale = window.markers(segments, grid) if monitoring.staleness_markers else ()
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
