"""All series of one cluster, in each Prometheus replica that scraped them.

Put here: from exposed series to their samples in a window.
Not here: which series there are (`object_series`, `device_series`), several clusters (`source`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping, Sequence

from fake_gpu.fleet.model import SimulatedCluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.device_series import DeviceSeries
from fake_gpu.prometheus.exposed_sources import sources_of
from fake_gpu.prometheus.faults import SampleFaults
from fake_gpu.prometheus.forgeries import FORGED
from fake_gpu.prometheus.label_sets import LabelPairs
from fake_gpu.prometheus.matchers import Matcher, all_match
from fake_gpu.prometheus.object_series import ObjectSeries
from fake_gpu.prometheus.pod_series import PodSeries
from fake_gpu.prometheus.scrape_faults import LARGEST_SKEW_MS, WRITTEN, FaultedSampling, arrived
from fake_gpu.prometheus.scrapes import Grid
from fake_gpu.prometheus.segments import (
    DAY_MS,
    ExposedSeries,
    ExposedSeriesSource,
    PrometheusReplica,
    ValueSegment,
)
from fake_gpu.prometheus.series import (
    BlockSamples,
    TimeBlock,
    VaryingSamples,
    WindowSeries,
)
from fake_gpu.prometheus.series_faults import EXTERNAL, KINDS
from fake_gpu.prometheus.tables import Rows, SeriesTable, UnorderedSeries
from fake_gpu.prometheus.targets import Target, targets_of
from fake_gpu.prometheus.window import TargetWindow, Window

# The queries of which it is remembered who can answer them: a pull asks a dozen different ones.
LARGEST_QUERY_CACHE = 64
# Metrics of a day that are kept as tables: those of one pull, and of the next day's.
LARGEST_TABLE_CACHE = 48

# A metric, matchers, replicas, the first and the last day.
_TableKey = tuple[str, tuple[Matcher, ...], tuple[int, ...], int, int]


class ClusterSeries:
    """Selects and samples the scrapes of one cluster's Prometheus replicas."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        history: ObjectHistory,
        faults: SampleFaults | None = None,
        cluster_ids: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.faults = faults or SampleFaults(cluster.cluster_id)
        label = cluster.monitoring.replica_label
        self.replicas = [
            PrometheusReplica(number, external, label)
            for number, external in enumerate(replicas_of(cluster))
        ]
        self.targets = targets_of(cluster)
        ids = cluster_ids or {}
        self.sources = sources_of(cluster, history, self.targets, self.faults, ids)
        self._late = self.faults.of("late_arrival")
        self._relabelled = bool(self.faults.of(*EXTERNAL))
        self._slack_ms = LARGEST_SKEW_MS if self.faults.of(*WRITTEN) else 0
        self._grids: dict[tuple[str, int, str], Grid] = {}
        self._asked: dict[tuple[Matcher, ...], list[tuple[ExposedSeriesSource, str]]] = {}
        self._is_plain = not self.faults.of("late_arrival", *WRITTEN, *KINDS, *FORGED)
        self._tables: OrderedDict[_TableKey, SeriesTable | None] = OrderedDict()

    def grid(self, target: Target, replica: int, metric: str) -> Grid:
        """The times of a target's samples as they reach the Thanos."""
        seconds = self.cluster.monitoring.collect_interval_seconds
        collect_ms = None if seconds is None else seconds * 1000
        sampling = FaultedSampling(target, replica, metric, self.faults, collect_ms)
        key = sampling.key()
        if key not in self._grids:
            self._grids[key] = sampling.grid()
        return self._grids[key]

    def select(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, now_ms: int
    ) -> Iterator[WindowSeries]:
        """The series with samples, or with the marker of their end, in the closed range."""
        for _, found in self._by_name(matchers, start_ms, end_ms, now_ms):
            yield from found

    def names_in(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, now_ms: int, known: set[str]
    ) -> None:
        """Add the names of metrics with samples there; known ones are not searched again."""
        for name, found in self._by_name(matchers, start_ms, end_ms, now_ms, known):
            if any(series.parts for series in found):
                known.add(name)

    def _by_name(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        now_ms: int,
        but: Container[str] = (),
    ) -> Iterator[tuple[str, Iterator[WindowSeries]]]:
        """The series of each metric of each source and replica, made as they are taken."""
        window = Window(max(start_ms, self.cluster.created_at * 1000), end_ms, self._slack_ms)
        possible = self._possible(matchers)
        if not possible or window.start_ms > end_ms:
            return
        others = self._still_open(matchers)
        for source, name in self._named(tuple(m for m in matchers if m.name == "__name__")):
            if name in but:
                continue
            series_list = source.exposed_series(name, window.start_ms, end_ms)
            for replica in possible:
                yield name, self._sampled(name, series_list, replica, others, window, now_ms)

    def may_have(self, matchers: Sequence[Matcher]) -> bool:
        """Whether any series of the cluster may be selected."""
        return bool(self._possible(matchers))

    def _possible(self, matchers: Sequence[Matcher]) -> list[PrometheusReplica]:
        return [
            replica
            for replica in self.replicas
            if self._relabelled or _possible(matchers, replica.external)
        ]

    def rows(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Rows] | None:
        """The samples in the closed range, metric by metric; None where not all are in tables."""
        start_ms = max(start_ms, self.cluster.created_at * 1000)
        tables = self.tables(matchers, start_ms, end_ms)
        if tables is None or start_ms > end_ms:
            return None
        found = []
        for name in sorted(tables):
            table = tables[name]
            if table is None:
                return None
            found.append(table.between(start_ms, end_ms))
        return found

    def is_there(self, end_ms: int) -> bool:
        """Whether the cluster has begun by then."""
        return self.cluster.created_at * 1000 <= end_ms

    def metrics(self, matchers: Sequence[Matcher]) -> set[str]:
        """The names that there may be series of."""
        named = self._named(tuple(m for m in matchers if m.name == "__name__"))
        return {name for _, name in named}

    def tables(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> dict[str, SeriesTable | None] | None:
        """The tables of all requested metrics; None for a metric that has none.

        None at all where faults change series from window to window.
        """
        if not self._is_plain:
            return None
        possible = self._possible(matchers)
        others = self._still_open(matchers)
        first_day = start_ms // DAY_MS
        last_day = max(first_day, (end_ms - 1) // DAY_MS)
        found: dict[str, SeriesTable | None] = {}
        if not possible:
            return found
        for _, name in self._named(tuple(m for m in matchers if m.name == "__name__")):
            if name not in found:
                numbers = tuple([replica.number for replica in possible])
                found[name] = self._table((name, others, numbers, first_day, last_day))
        return found

    def _table(self, key: _TableKey) -> SeriesTable | None:
        if key in self._tables:
            return self._tables[key]
        name, matchers, numbers, first_day, last_day = key
        # With the first instant of the day after, at which a window of whole hours ends.
        start_ms, end_ms = first_day * DAY_MS, (last_day + 1) * DAY_MS
        sources = [source for source in self.sources if name in source.names()]
        if any(isinstance(source, DeviceSeries) for source in sources):
            return None
        replicas = [self.replicas[number] for number in numbers]

        def grid_of(target: Target, replica: PrometheusReplica) -> Grid:
            return self.grid(target, replica.number, name)

        unordered = UnorderedSeries(grid_of)
        for source in sources:
            if isinstance(source, PodSeries | ObjectSeries):
                shapes = source.shapes(name, start_ms, end_ms, matchers)
                shapes.add_to(unordered, (start_ms, end_ms), replicas)
                continue
            for series in source.exposed_series(name, start_ms, end_ms):
                if series.segments and all_match(matchers, series.labels):
                    for replica in replicas:
                        number = unordered.number(series.target, replica)
                        unordered.add(series.label_set(replica), number, series.segments)
        made = SeriesTable.of(unordered)
        while len(self._tables) >= LARGEST_TABLE_CACHE:
            self._tables.popitem(last=False)
        self._tables[key] = made
        return made

    def _named(self, matchers: tuple[Matcher, ...]) -> list[tuple[ExposedSeriesSource, str]]:
        """The sources of the requested metrics; the same query is repeated for every hour."""
        known = self._asked.get(matchers)
        if known is None:
            if len(self._asked) >= LARGEST_QUERY_CACHE:
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
            answered.update(name for replica in self.replicas for name in replica.external)
        return tuple(matcher for matcher in matchers if matcher.name not in answered)

    def _sampled(
        self,
        name: str,
        series_list: Sequence[ExposedSeries],
        replica: PrometheusReplica,
        matchers: tuple[Matcher, ...],
        window: Window,
        now_ms: int,
    ) -> Iterator[WindowSeries]:
        """Every series of every answer comes through here; most have one value all the time."""
        earliest, latest = window.reach
        hears_of_ends = self.cluster.monitoring.staleness_markers
        cuts: dict[str, TargetWindow] = {}
        for series in series_list:
            segments = series.segments
            if not segments or segments[0].from_ms > latest or segments[-1].until_ms < earliest:
                continue
            if matchers and not self._matches(series, replica, matchers):
                continue
            cut = cuts.get(series.target.name)
            if cut is None:
                cut = window.cut(self.grid(series.target, replica.number, name))
                cuts[series.target.name] = cut
            if len(segments) == 1 and not self._late:
                only = segments[0]
                everywhere = only.from_ms <= cut.first and only.until_ms > cut.beyond
                if everywhere and isinstance(only, ValueSegment):
                    yield WindowSeries(series.label_set(replica), cut.whole(only.value))
                    continue
            parts: Sequence[BlockSamples] = window.parts(segments, cut)
            if self._late:
                parts = list(self._arrived(parts, series, name, now_ms))
            stale = window.markers(segments, cut.grid) if hears_of_ends else ()
            if parts or stale:
                yield WindowSeries(series.label_set(replica), parts, stale)

    def _matches(
        self, series: ExposedSeries, replica: PrometheusReplica, matchers: tuple[Matcher, ...]
    ) -> bool:
        # Without faults, the labels that a replica adds have been read already.
        if self._relabelled:
            return series.label_set(replica).matches(matchers)
        return all_match(matchers, series.labels)

    def _arrived(
        self, parts: Sequence[BlockSamples], series: ExposedSeries, metric: str, now_ms: int
    ) -> Iterator[BlockSamples]:
        """The samples that can be seen by now."""
        for part in parts:
            block, fault = arrived(part.block, self._late, metric, series.target, now_ms)
            if fault is None:
                yield part
                continue
            seen = set(block.times)
            numbers = zip(part.times, part.values(), strict=True)
            kept = {at: number for at, number in numbers if at in seen}
            if len(kept) == len(part):
                yield part
                continue
            self.faults.fire(fault, now_ms // 1000, f"{metric} of {series.target.name}")
            if kept:
                times = TimeBlock(list(kept))
                yield VaryingSamples(times, 0, len(kept), list(kept.values()))


def replicas_of(cluster: SimulatedCluster) -> list[LabelPairs]:
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
