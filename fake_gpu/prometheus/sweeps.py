"""Values that change every few minutes: one segment for many levels, read by the block.

Put here: the track of a series through adjoining intervals, and its values along it.
Not here: series of a few segments, which are cheaper one by one (`segments`, `window`).

All metrics of a device change at the same instants. So where each scrape falls is found once per
block of times, and a metric is one number per interval, picked for all scrapes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fake_gpu.prometheus.segments import AnySegment, ValueSegment
    from fake_gpu.prometheus.series import TimeBlock

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

# Blocks whose positions a track caches: the hours of a day, in two replicas, and their edges.
LARGEST_BLOCK_CACHE = 64
# From here on arrays are quicker than a walk from segment to segment.
MANY_SEGMENTS = 48


class Track:
    """Adjoining intervals: where each begins, in milliseconds."""

    __slots__ = ("_found", "starts")

    def __init__(self, starts: Sequence[int]) -> None:
        import numpy as np

        self.starts: Integers = np.array(starts, dtype=np.int64)
        self._found: dict[TimeBlock, Integers] = {}

    def positions(self, block: TimeBlock) -> Integers:
        """The interval of every scrape of a block; those outside have the nearest one."""
        known = self._found.get(block)
        if known is None:
            if len(self._found) >= LARGEST_BLOCK_CACHE:
                self._found.clear()
            found = self.starts.searchsorted(block.real_array(), side="right") - 1
            known = self._found[block] = found.clip(0)
        return known


class TrackValues(Protocol):
    """The values of a metric along a track."""

    def at(self, positions: Integers, times_ms: Integers) -> Floats: ...


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """One number per interval."""

    values: Floats

    def at(self, positions: Integers, times_ms: Integers) -> Floats:
        return self.values[positions]


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """A counter: in each interval it grows from `bases` by `per_ms`, and shows whole units."""

    starts: Integers
    bases: Integers
    per_ms: Integers
    divisor: int

    def at(self, positions: Integers, times_ms: Integers) -> Floats:
        grown = self.per_ms[positions] * (times_ms - self.starts[positions])
        whole: Integers = (self.bases[positions] + grown) // self.divisor
        return whole.astype("float64")


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """The series is exposed during `[from_ms, until_ms)`, with the values along the track."""

    from_ms: int
    until_ms: int
    track: Track
    values: TrackValues

    def at(self, time_ms: int) -> float:
        import numpy as np

        times = np.array([time_ms], dtype=np.int64)
        positions = self.track.starts.searchsorted(times, side="right") - 1
        return float(self.values.at(positions, times)[0])

    def numbers(self, block: TimeBlock, low: int, high: int) -> Floats:
        """At some scrapes of a block."""
        positions = self.track.positions(block)[low:high]
        return self.values.at(positions, block.real_array()[low:high])

    def clipped(self, from_ms: int, until_ms: int) -> Sweep:
        return Sweep(from_ms, until_ms, self.track, self.values)

    def continues(self, other: object) -> bool:
        return False


def gathered(segments: Sequence[AnySegment]) -> tuple[AnySegment, ...]:
    """Very many segments of one value each, as few sweeps; others are unchanged."""
    from fake_gpu.prometheus.segments import ValueSegment

    if len(segments) < MANY_SEGMENTS:
        return tuple(segments)
    found: list[AnySegment] = []
    run: list[ValueSegment] = []
    for segment in segments:
        if run and not (isinstance(segment, ValueSegment) and segment.from_ms == run[-1].until_ms):
            found.append(_swept(run))
            run = []
        if isinstance(segment, ValueSegment):
            run.append(segment)
        else:
            found.append(segment)
    return (*found, _swept(run)) if run else tuple(found)


def _swept(run: Sequence[ValueSegment]) -> Sweep:
    import numpy as np

    track = Track([segment.from_ms for segment in run])
    values = np.array([segment.value for segment in run], dtype=np.float64)
    return Sweep(run[0].from_ms, run[-1].until_ms, track, Levels(values))
