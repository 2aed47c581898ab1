"""The series that Prometheus adds for each scrape: `up` and `scrape_*`.

Put here: reachability, and the number of lines of an exposition through time.
Not here: the lines; how many series are new (`series_added`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fake_gpu.prometheus.segments import (
    DAY_MS,
    NO_END,
    AnySegment,
    ExposedSeries,
    LineCounts,
    Noise,
    ValueSegment,
    joined,
    within,
)
from fake_gpu.prometheus.sweeps import gathered
from fake_gpu.prometheus.targets import Target

_LINES = ("scrape_samples_scraped", "scrape_samples_post_metric_relabeling")
DURATION = "scrape_duration_seconds"


class TargetSeries:
    """`up` and `scrape_*` of some targets."""

    def __init__(
        self,
        targets: Sequence[Target],
        lines: Callable[[Target, int, int], LineCounts],
    ) -> None:
        self.targets = targets
        self._lines = lines
        self._counted_days = (0, 0)
        self._counted: dict[str, list[ExposedSeries]] = {line: [] for line in _LINES}
        self._up = [
            ExposedSeries(target, target.labelled_up("up"), up_segments(target))
            for target in targets
        ]
        self._durations = [
            ExposedSeries(target, target.labelled_up(DURATION), (_duration(target),))
            for target in targets
        ]

    def names(self) -> Iterable[str]:
        return ("up", *_LINES, DURATION)

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> Sequence[ExposedSeries]:
        if name == "up":
            return self._up
        if name == DURATION:
            return self._durations
        days = (start_ms // DAY_MS, end_ms // DAY_MS)
        if self._counted_days != days:
            self._counted_days = days
            self._counted = {line: [] for line in _LINES}
            for target in self.targets:
                segments = self._counts(target, days[0] * DAY_MS, (days[1] + 1) * DAY_MS - 1)
                for line, series_list in self._counted.items():
                    series_list.append(ExposedSeries(target, target.labelled_up(line), segments))
        return self._counted[name]

    def _counts(self, target: Target, start_ms: int, end_ms: int) -> tuple[AnySegment, ...]:
        return counted(target, self._lines(target, start_ms, end_ms), start_ms, end_ms)


def _duration(target: Target) -> Noise:
    from_ms = target.present[0][0] if target.present else 0
    return Noise(from_ms, NO_END, target.name, 0.04)


def counted(
    target: Target, counts: LineCounts, start_ms: int, end_ms: int
) -> tuple[AnySegment, ...]:
    """The sum at each scrape of a target in a closed range; 0 where it failed."""
    answered = within(_steps(counts, start_ms, end_ms), target.reachable)
    failed = [s for s in up_segments(target) if isinstance(s, ValueSegment) and s.value == 0]
    return gathered(joined(sorted([*answered, *failed], key=lambda segment: segment.from_ms)))


def _steps(counts: LineCounts, start_ms: int, end_ms: int) -> list[AnySegment]:
    changes: dict[int, int] = {start_ms: 0, end_ms + 1: 0}
    for from_ms, until_ms, lines in counts:
        low, high = max(from_ms, start_ms), min(until_ms, end_ms + 1)
        if low < high:
            changes[low] = changes.get(low, 0) + lines
            changes[high] = changes.get(high, 0) - lines
    segments: list[AnySegment] = []
    total = 0
    times = sorted(changes)
    for at, until in zip(times, [*times[1:], NO_END], strict=True):
        total += changes[at]
        if at <= end_ms:
            segments.append(ValueSegment(at, until, float(total)))
    return segments


def up_segments(target: Target) -> tuple[AnySegment, ...]:
    """1 while a target is reachable, 0 while it is only known."""
    segments: list[AnySegment] = []
    for from_ms, end in target.present:
        at, until_ms = from_ms, NO_END if end is None else end
        for reach_from, reach_end in target.reachable:
            low = max(at, reach_from)
            high = min(until_ms, NO_END if reach_end is None else reach_end)
            if low >= high:
                continue
            if at < low:
                segments.append(ValueSegment(at, low, 0.0))
            segments.append(ValueSegment(low, high, 1.0))
            at = high
        if at < until_ms:
            segments.append(ValueSegment(at, until_ms, 0.0))
    return tuple(segments)
