"""The samples of an estate, as the one Thanos above all its clusters holds them.

Put here: all clusters together, up to now.
Not here: one cluster's samples (`cluster_series`), what a querier makes of them (`view`), faults.

Nothing walks from scrape to scrape: a series is a few segments of one value, the times are shared
by all series of a target, and a sample is where the two meet.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC

from domain.clock import Clock
from fake_gpu.estate.model import Estate
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.cluster_series import ClusterSeries
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.series import RawSeries


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
