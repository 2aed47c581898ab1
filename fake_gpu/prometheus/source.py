"""The samples of a fleet, as the one Thanos above all its clusters holds them.

Put here: all clusters together, up to now.
Not here: one cluster's samples (`cluster_series`), the querier (`view`), faults.

Nothing walks from scrape to scrape: a series is a few segments of one value, the times are shared
by all series of a target, and a sample is where the two meet.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC
from itertools import groupby

from domain.clock import Clock
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fleet
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.answer_faults import AnswerFaults
from fake_gpu.prometheus.cluster_series import ClusterSeries, replicas_of
from fake_gpu.prometheus.faults import SampleFaults
from fake_gpu.prometheus.language import METRIC_NAME
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.series import TimeBlock, VaryingSamples, WindowSeries
from fake_gpu.prometheus.stores import SimulatedStore
from fake_gpu.prometheus.tables import Rows

_Asked = tuple[tuple[Matcher, ...], int, int, int]


class FleetSeries:
    """Implements `series.SeriesSource` for a whole fleet; shows nothing that is yet to come."""

    def __init__(
        self,
        fleet: Fleet,
        histories: Mapping[str, ObjectHistory],
        clock: Clock,
        ledger: FaultLedger | None = None,
    ) -> None:
        self.fleet = fleet
        self.clock = clock
        self.faults = SampleFaults("", fleet.faults, ledger)
        ids = {cluster.name: cluster.cluster_id for cluster in fleet.clusters}
        self.clusters = [
            ClusterSeries(
                cluster,
                histories[cluster.cluster_id],
                SampleFaults(cluster.cluster_id, fleet.faults, self.faults.ledger),
                ids,
            )
            for cluster in fleet.clusters
        ]
        self.answer_faults = AnswerFaults(self.faults, stores_of(fleet))
        # The answer before, if of one metric: its average, maximum and count are asked in a row.
        self._last: tuple[_Asked, list[WindowSeries]] | None = None
        # Caches are shared between requests, and a server answers several at a time.
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        return round(self.clock.now().astimezone(UTC).timestamp() * 1000)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[WindowSeries]:
        now_ms = self.now_ms()
        asked = (tuple(matchers), start_ms, end_ms, now_ms)
        with self._lock:
            if self._last is not None and self._last[0] == asked:
                return list(self._last[1])
            self._last = None  # before the next one is made: large answers are not kept twice
            found = self._select(matchers, start_ms, end_ms, now_ms)
            if any(m.name == METRIC_NAME and m.operator == "=" for m in matchers):
                self._last = (asked, found)
            return list(found)

    def rows(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Rows] | None:
        """The rows of `select` in order, from tables; None where that is impossible."""
        now_ms = self.now_ms()
        end_ms = min(end_ms, now_ms)
        asked = [cluster for cluster in self.clusters if cluster.may_have(matchers)]
        if len(asked) != 1 or start_ms > end_ms:
            return None  # Clusters mingle in the order of labels.
        with self._lock:
            return asked[0].rows(matchers, start_ms, end_ms)

    def metrics(self, matchers: Sequence[Matcher]) -> set[str]:
        """The names that there may be series of."""
        return set().union(*(cluster.metrics(matchers) for cluster in self.clusters))

    def rows_of(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Rows] | None:
        """The samples of one metric, cluster by cluster; None where it is not in tables."""
        end_ms = min(end_ms, self.now_ms())
        added = [tuple(r.external.items()) for c in self.clusters for r in c.replicas]
        if len(set(added)) < len(added):
            return None  # No label distinguishes the clusters.
        found: list[Rows] = []
        with self._lock:
            for cluster in self.clusters:
                rows = cluster.rows(matchers, start_ms, end_ms) if cluster.is_there(end_ms) else []
                if rows is None:
                    return None
                found += rows
        return found

    def names_in(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> set[str]:
        """The names of the metrics that have samples in the closed range."""
        now_ms = self.now_ms()
        known: set[str] = set()
        with self._lock:
            for cluster in self.clusters:
                cluster.names_in(matchers, start_ms, min(end_ms, now_ms), now_ms, known)
        return known

    def _select(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, now_ms: int
    ) -> list[WindowSeries]:
        found = [
            series
            for cluster in self.clusters
            for series in cluster.select(matchers, start_ms, min(end_ms, now_ms), now_ms)
        ]
        return _one_each(found)


def _one_each(found: list[WindowSeries]) -> list[WindowSeries]:
    """In the order of their labels, and equal labels are one series.

    Two series become one when a fault removes a label.
    """
    orders = [series.label_set.order for series in found]
    ordered = [found[position] for position in sorted(range(len(found)), key=orders.__getitem__)]
    if len(set(orders)) == len(orders):
        return ordered
    groups = groupby(ordered, key=lambda series: series.label_set.order)
    return [_united(list(group)) for _, group in groups]


def _united(series_list: list[WindowSeries]) -> WindowSeries:
    if len(series_list) == 1:
        return series_list[0]
    samples: dict[int, float] = {}
    for series in series_list:
        for at, number in zip(series.timestamps_ms, series.numbers, strict=True):
            samples.setdefault(at, number)  # as Prometheus does: the first one of a time is kept
    times = sorted(samples)
    part = VaryingSamples(TimeBlock(times), 0, len(times), [samples[at] for at in times])
    stale = sorted({at for series in series_list for at in series.stale_ms} - set(times))
    return WindowSeries(series_list[0].label_set, (part,) if times else (), tuple(stale))


def stores_of(fleet: Fleet) -> list[SimulatedStore]:
    """A sidecar for each Prometheus replica, receivers for a cluster that is collected."""
    stores = []
    for number, cluster in enumerate(fleet.clusters):
        kind = "receive" if cluster.monitoring.collect_interval_seconds else "sidecar"
        for replica, external in enumerate(replicas_of(cluster)):
            address = f"10.96.{number}.{replica + 10}:10901"
            first_ms = cluster.created_at * 1000
            stores.append(
                SimulatedStore(cluster.cluster_id, replica, kind, address, external, first_ms)
            )
    return stores
