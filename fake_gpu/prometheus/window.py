"""The samples of series in one window: where segments meet scrapes.

Put here: the arithmetic that every series of every answer goes through; it is written for speed.
Not here: which series there are (`cluster_series`), or when scrapes are (`scrapes`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from fake_gpu.prometheus.scrapes import Grid
from fake_gpu.prometheus.segments import NO_END, AnySegment, ValueSegment
from fake_gpu.prometheus.series import ArraySamples, BlockSamples, TimeBlock, VaryingSamples
from fake_gpu.prometheus.sweeps import Sweep

# How far a staleness marker may lie behind the end of a series: the longest interval of a scrape.
LONGEST_INTERVAL_MS = 600_000

_UNTIL = attrgetter("until_ms")


class TargetWindow:
    """The scrapes of one target in a window."""

    __slots__ = ("_whole", "beyond", "block", "first", "grid", "last")

    def __init__(self, grid: Grid, block: TimeBlock, end_ms: int) -> None:
        self.grid = grid
        self.block = block
        # Without scrapes there is none that a series could be there at.
        self.first, self.last = (block.real[0], block.real[-1]) if block.times else (-NO_END, 0)
        # A series that lasts longer is in every scrape and leaves no marker.
        self.beyond = max(self.last, end_ms)
        self._whole: dict[float, tuple[BlockSamples, ...]] = {}

    def whole(self, value: float) -> tuple[BlockSamples, ...]:
        """One value at all scrapes."""
        known = self._whole.get(value)
        if known is None:
            part = self.block.constant(0, len(self.block.times), value)
            known = self._whole[value] = (part,)
        return known


@dataclass(slots=True)
class Window:
    """A closed range of written times; `slack_ms` is how far real times may lie from them."""

    start_ms: int
    end_ms: int
    slack_ms: int = 0

    @property
    def reach(self) -> tuple[int, int]:
        """A segment that ends before or begins after has no sample here, nor an end marker."""
        earliest = self.start_ms - self.slack_ms - LONGEST_INTERVAL_MS
        return earliest, self.end_ms + self.slack_ms

    def cut(self, grid: Grid) -> TargetWindow:
        return TargetWindow(grid, grid.shown(self.start_ms, self.end_ms), self.end_ms)

    def parts(self, segments: Sequence[AnySegment], cut: TargetWindow) -> list[BlockSamples]:
        """The samples of a series, segment by segment."""
        block, first, last = cut.block, cut.first, cut.last
        if not block.times:
            return []
        position = bisect_right(segments, first, key=_UNTIL) if len(segments) > 1 else 0
        found: list[BlockSamples] = []
        for index in range(position, len(segments)):
            segment = segments[index]
            if segment.from_ms > last:
                break
            if segment.from_ms <= first and segment.until_ms > last:
                low, high = 0, len(block.times)
            else:
                low, high = block.found(segment.from_ms, segment.until_ms)
            if low < high:
                found.append(_part(block, low, high, segment))
        return found

    def markers(self, segments: Sequence[AnySegment], grid: Grid) -> tuple[int, ...]:
        """At the first scrape that did not find the series any more."""
        last = segments[-1].until_ms
        if len(segments) == 1 and last > self.end_ms:
            return ()
        return tuple(self._markers(segments, grid))

    def _markers(self, segments: Sequence[AnySegment], grid: Grid) -> Iterator[int]:
        earliest = self.start_ms - LONGEST_INTERVAL_MS
        for position in range(bisect_left(segments, earliest, key=_UNTIL), len(segments)):
            segment = segments[position]
            if segment.until_ms > self.end_ms:
                break
            back = segments[position + 1].from_ms if position + 1 < len(segments) else NO_END
            if back == segment.until_ms:
                continue
            marker = grid.first_time(segment.until_ms, segment.until_ms + LONGEST_INTERVAL_MS)
            if marker is not None and self.start_ms <= marker <= self.end_ms and marker < back:
                yield marker


def _part(block: TimeBlock, low: int, high: int, segment: AnySegment) -> BlockSamples:
    if isinstance(segment, ValueSegment):
        return block.constant(low, high, segment.value)
    if isinstance(segment, Sweep):
        return ArraySamples(block, low, high, segment.numbers(block, low, high))
    return VaryingSamples(block, low, high, list(map(segment.at, block.real[low:high])))
