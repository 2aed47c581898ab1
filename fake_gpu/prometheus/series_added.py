"""`scrape_series_added`: how many series each scrape found that the scrape before did not.

Put here: the beginnings of series, counted per target.
Not here: the other series about scrapes (`target_series`).

It goes through every series of a target, so it is calculated only if it is queried. As in a real
server a failed scrape discards nothing: series that return with their target are not new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fake_gpu.prometheus.device_series import DeviceSeries
from fake_gpu.prometheus.segments import (
    DAY_MS,
    NO_END,
    AnySegment,
    ExposedSeries,
    ExposedSeriesSource,
)
from fake_gpu.prometheus.target_series import counted
from fake_gpu.prometheus.targets import Target

SERIES_ADDED = "scrape_series_added"
# A Prometheus drops a series from its memory of the target after so many scrapes without it.
SCRAPES_REMEMBERED = 2


class SeriesAdded:
    """The metric, for some targets."""

    def __init__(self, targets: Sequence[Target], sources: Sequence[ExposedSeriesSource]) -> None:
        self.targets = targets
        self.sources = sources
        self._days = (0, -1)
        self._known_series: list[ExposedSeries] = []

    def names(self) -> Iterable[str]:
        return (SERIES_ADDED,)

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> Sequence[ExposedSeries]:
        days = (start_ms // DAY_MS, end_ms // DAY_MS)
        if self._days != days:
            self._known_series = list(
                self._find_begins(days[0] * DAY_MS, (days[1] + 1) * DAY_MS - 1)
            )
            self._days = days
        return self._known_series

    def _find_begins(self, start_ms: int, end_ms: int) -> Iterator[ExposedSeries]:
        begun: dict[str, list[tuple[int, int, int]]] = {target.name: [] for target in self.targets}
        for source in self.sources:
            for name in source.names():
                # Devices are read day by day; a series does not begin at midnight.
                earlier_ms = DAY_MS if isinstance(source, DeviceSeries) else 0
                for series in source.exposed_series(name, start_ms - earlier_ms, end_ms):
                    if series.target.name in begun:
                        begun[series.target.name] += _beginnings(series)
        for target in self.targets:
            segments = counted(target, iter(begun[target.name]), start_ms, end_ms)
            yield ExposedSeries(target, target.labelled_up(SERIES_ADDED), segments)


def _beginnings(series: ExposedSeries) -> Iterator[tuple[int, int, int]]:
    """(from, until, 1): the next scrape would find the series new, if it still finds it."""
    target = series.target
    returns = {reach_from for reach_from, _ in target.reachable}
    returns -= {present_from for present_from, _ in target.present}
    forgotten_ms = SCRAPES_REMEMBERED * target.interval_ms
    gone_ms = -NO_END
    for from_ms, until_ms in _runs(series.segments):
        if from_ms - gone_ms > forgotten_ms and from_ms not in returns:
            # Between this instant and an interval later there is one scrape.
            yield from_ms, min(until_ms, from_ms + target.interval_ms), 1
        gone_ms = until_ms


def _runs(segments: Sequence[AnySegment]) -> Iterator[tuple[int, int]]:
    """From when until when the series is exposed without a break."""
    begun: int | None = None
    for position, segment in enumerate(segments):
        begun = segment.from_ms if begun is None else begun
        last = position + 1 == len(segments)
        if last or segments[position + 1].from_ms != segment.until_ms:
            yield begun, segment.until_ms
            begun = None
