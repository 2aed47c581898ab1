"""The samples of series in one window: where segments meet scrapes.

Put here: the arithmetic that every series of every answer goes through; it is written for speed.
Not here: which series there are (`cluster_series`), or when scrapes are (`scrapes`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from fake_gpu.prometheus.many_segments import MANY_SEGMENTS, Cut, many_pieces
from fake_gpu.prometheus.scrapes import HOUR_MS, Grid
from fake_gpu.prometheus.segments import NO_END, AnySegment, Segment
from fake_gpu.prometheus.series import AnyPiece, TimeBlock, VaryingPiece

# How far a staleness marker may lie behind the end of a series: the longest interval of a scrape.
LONGEST_INTERVAL_MS = 600_000

_UNTIL = attrgetter("until_ms")


@dataclass(slots=True)
class Window:
    """A closed range of written times; `slack_ms` is how far real times may lie from them."""

    start_ms: int
    end_ms: int
    slack_ms: int = 0
    _cuts: dict[int, list[Cut | None]] = field(default_factory=dict)

    def touches(self, segments: Sequence[AnySegment]) -> bool:
        """Whether a series may have a sample, or the marker of its end, in the window."""
        return bool(segments) and (
            segments[0].from_ms <= self.end_ms + self.slack_ms
            and segments[-1].until_ms >= self.start_ms - self.slack_ms - LONGEST_INTERVAL_MS
        )

    def pieces(self, segments: Sequence[AnySegment], grid: Grid) -> list[AnyPiece]:
        """The samples of a series, block by block."""
        cuts = self._cuts.get(id(grid))
        if cuts is None:
            cuts = self._cuts[id(grid)] = self._cut(grid)
        if len(segments) >= MANY_SEGMENTS:
            return many_pieces(segments, [cut for cut in cuts if cut is not None])
        base = self.start_ms // HOUR_MS
        first = max(0, (segments[0].from_ms - self.slack_ms) // HOUR_MS - base)
        last = (segments[-1].until_ms + self.slack_ms) // HOUR_MS - base + 1
        found: list[AnyPiece] = []
        earliest_ms = self.start_ms - self.slack_ms
        position = bisect_right(segments, earliest_ms, key=_UNTIL) if len(segments) > 1 else 0
        for cut in cuts[first:last] if last < len(cuts) or first else cuts:
            if cut is not None:
                position = _within(segments, position, cut, found)
        return found

    def _cut(self, grid: Grid) -> list[Cut | None]:
        return [self._ends(block) for block in grid.blocks(self.start_ms, self.end_ms)]

    def _ends(self, block: TimeBlock) -> Cut | None:
        low, high = block.cut(self.start_ms, self.end_ms)
        if low >= high:
            return None
        return block, low, high, block.real[low], block.real[high - 1]

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


def _within(segments: Sequence[AnySegment], position: int, cut: Cut, found: list[AnyPiece]) -> int:
    """Add the pieces of one block; returns where the next block has to look on."""
    block, first, last, first_real, last_real = cut
    count = len(segments)
    while position < count and segments[position].until_ms <= first_real:
        position += 1
    for index in range(position, count):
        segment = segments[index]
        if segment.from_ms > last_real:
            break
        if segment.from_ms <= first_real and segment.until_ms > last_real:
            low, high = first, last
        else:
            low, high = block.found(segment.from_ms, segment.until_ms)
            low, high = max(low, first), min(high, last)
        if low < high:
            if isinstance(segment, Segment):
                found.append(block.piece(low, high, segment.value))
            else:
                numbers = list(map(segment.at, block.real[low:high]))
                found.append(VaryingPiece(block, low, high, numbers))
    return position
