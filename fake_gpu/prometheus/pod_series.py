"""The metrics of pods that a ledger reads, straight from the lifetimes of pods.

Put here: series per pod, made once and kept while the pod is in the window.
Not here: the series of a pod (`fake_gpu.exporters.pod_intervals`), other metrics (`object_series`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fake_gpu.exporters.exposition import Pairs
from fake_gpu.exporters.pod_intervals import PodIntervals, intervals_of
from fake_gpu.fleet.model import PodLifetime
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.segments import NO_END, AnySegment, ExposedSeries, ValueSegment, joined
from fake_gpu.prometheus.shapes import Shapes
from fake_gpu.prometheus.targets import Target

HOUR_SECONDS = 3600
# A series that ended this long before the window may still leave its staleness marker in it.
LONGEST_ECHO_SECONDS = 600


class PodIndex:
    """Which pods exist in which hour."""

    def __init__(self, pods: Sequence[PodLifetime]) -> None:
        self.pods = pods
        self._hours: dict[int, list[int]] = {}
        self._open: list[int] = []
        for number, pod in enumerate(pods):
            if pod.gone_at is None:
                self._open.append(number)
                continue
            last = (pod.gone_at + LONGEST_ECHO_SECONDS) // HOUR_SECONDS
            for hour in range(pod.created_at // HOUR_SECONDS, last + 1):
                self._hours.setdefault(hour, []).append(number)

    def between(self, start_ms: int, end_ms: int) -> list[int]:
        """The numbers of the pods that exist in the hours of a range, or ended just before."""
        first, last = start_ms // 1000 // HOUR_SECONDS, end_ms // 1000 // HOUR_SECONDS
        found: Iterable[int]
        if first == last:
            found = self._hours.get(first, ())
        else:
            hours = range(first, last + 1)
            found = sorted({number for hour in hours for number in self._hours.get(hour, ())})
        still = [n for n in self._open if self.pods[n].created_at // HOUR_SECONDS <= last]
        return [*found, *still]


class PodSeries:
    """Some families of one exporter, for all pods of a cluster."""

    def __init__(
        self,
        target: Target,
        index: PodIndex,
        families: Mapping[str, Callable[[PodLifetime], PodIntervals]],
    ) -> None:
        self.target = target
        self.index = index
        self.families = families
        self._windows: dict[str, tuple[int, int]] = {}
        self._made: dict[str, dict[int, list[ExposedSeries]]] = {}

    def names(self) -> Iterable[str]:
        return self.families

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> list[ExposedSeries]:
        """The series of the pods in the window; those of pods that left it are forgotten."""
        window = (start_ms // 1000 // HOUR_SECONDS, end_ms // 1000 // HOUR_SECONDS)
        if self._windows.get(name) != window:
            before = self._made.get(name, {})
            self._made[name] = {
                number: before.get(number) or self._of(name, self.index.pods[number])
                for number in self.index.between(start_ms, end_ms)
            }
            self._windows[name] = window
        return [series for series_list in self._made[name].values() for series in series_list]

    def shapes(self, name: str, start_ms: int, end_ms: int, matchers: Sequence[Matcher]) -> Shapes:
        """The series of a metric in the window, for a table; they are not remembered."""
        found = Shapes(self.target, name, matchers)
        for number in self.index.between(start_ms, end_ms):
            seen_until: dict[tuple[str, ...], int] = {}
            for interval in self.families[name](self.index.pods[number]):
                found.add(*interval, seen_until)
        return found

    def _of(self, name: str, pod: PodLifetime) -> list[ExposedSeries]:
        found = self._segments(name, pod)
        return [
            ExposedSeries(self.target, self.target.labelled(name, exposed), joined(parts), exposed)
            for exposed, parts in found.items()
        ]

    def _segments(self, name: str, pod: PodLifetime) -> dict[Pairs, list[AnySegment]]:
        # Within a family of a pod, equal labels are equally written.
        found: dict[Pairs, list[AnySegment]] = {}
        for interval in intervals_of(self.families, name, pod):
            until = NO_END if interval.until_at is None else interval.until_at * 1000
            parts = found.setdefault(interval.labels, [])
            # Of two equal series in one scrape, Prometheus keeps the first.
            if not parts or parts[-1].until_ms <= interval.from_at * 1000:
                parts.append(ValueSegment(interval.from_at * 1000, until, interval.value))
        return found
