"""When targets are scraped: intervals, offsets, late scrapes, and the samples that a collector
takes.

Put here: the times of the samples of one target in one Prometheus replica.
Not here: the values of a scrape (`histories`), faults that lose scrapes (`faults`).

A Prometheus scrapes each target at its own offset within the interval, by a hash of the target and
of itself, and writes the intended time unless it is late by more than two milliseconds. So most
times lie on a grid, and a few are late by some milliseconds. All of it comes from hashes.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from fake_gpu.prometheus.series import TimeBlock

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# One scrape in this many is late, by at most this much, as of a busy Prometheus.
LATE_ONE_IN = 40
LATEST_MS = 47
SMALLEST_LATENESS_MS = 3  # below it, Prometheus writes the intended time
# One digest of 64 bytes decides for 32 scrapes whether they are late, and by how much.
_SCRAPES_PER_DIGEST = 32
# The oldest sample that a federation finds: the look-back of the Prometheus that it queries.
OLDEST_COLLECTED_MS = 300_000
# Days of scrapes that are remembered, of 23 kB each: of all targets of a fleet for one or two.
LARGEST_DAY_CACHE = 1024
# Hours of times that one grid keeps; older ones are computed again when requested.
LARGEST_BLOCK_CACHE = 48
# A pull alternates between a window of allocation and one of telemetry.
LARGEST_WINDOW_CACHE = 4


@dataclass(frozen=True, slots=True)
class Schedule:
    """The scrapes of one target by one Prometheus replica."""

    name: str  # unique per target and replica; the offset and the lateness come from it
    interval_ms: int

    @property
    def offset_ms(self) -> int:
        return _hashed(self.name) % self.interval_ms

    def times(self, from_ms: int, until_ms: int) -> list[int]:
        """The scrapes in `[from_ms, until_ms)`; a late one belongs where it was written."""
        found: list[int] = self.array(from_ms, until_ms).tolist()
        return found

    def array(self, from_ms: int, until_ms: int) -> Integers:
        """The same, for arithmetic on all of them."""
        return _cut_of_days(lambda day: _scraped(self, day), from_ms, until_ms)


@lru_cache(maxsize=1 << 14)
def _hashed(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def _cut_of_days(of_day: Callable[[int], Integers], from_ms: int, until_ms: int) -> Integers:
    import numpy as np

    days = range(from_ms // DAY_MS, (until_ms - 1) // DAY_MS + 1)
    times = of_day(days[0]) if len(days) == 1 else np.concatenate([of_day(day) for day in days])
    low, high = times.searchsorted((from_ms, until_ms))
    return times[low:high]


@lru_cache(maxsize=LARGEST_DAY_CACHE)
def _scraped(schedule: Schedule, day: int) -> Integers:
    """The scrapes that were written in a day."""
    import numpy as np

    offset, interval = schedule.offset_ms, schedule.interval_ms
    first = (day * DAY_MS - LATEST_MS - offset) // interval
    last = ((day + 1) * DAY_MS - 1 - offset) // interval
    times = offset + interval * np.arange(first, last + 1, dtype=np.int64)
    times += _lateness(schedule.name, first, last)
    low, high = times.searchsorted((day * DAY_MS, (day + 1) * DAY_MS))
    return times[low:high]


def _lateness(name: str, first: int, last: int) -> Integers:
    """By how many milliseconds each of the scrapes is late; most are not."""
    import numpy as np

    blocks = range(first // _SCRAPES_PER_DIGEST, last // _SCRAPES_PER_DIGEST + 1)
    before = f"{name}\n".encode()
    digests = [hashlib.sha512(b"%b%d" % (before, block)).digest() for block in blocks]
    drawn = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, 2)
    late = (drawn[:, 0] < -(-256 // LATE_ONE_IN)).nonzero()[0]
    spread = LATEST_MS - SMALLEST_LATENESS_MS + 1
    lateness = np.zeros(len(drawn), dtype=np.int64)
    lateness[late] = SMALLEST_LATENESS_MS + drawn[late, 1].astype(np.int64) * spread // 256
    begin = first - blocks[0] * _SCRAPES_PER_DIGEST
    return lateness[begin : begin + last - first + 1]


@dataclass(frozen=True, slots=True)
class Federation:
    """A collector that takes the newest sample of everything at its own interval (federation)."""

    name: str
    interval_ms: int

    def of(self, schedule: Schedule, from_ms: int, until_ms: int) -> list[int]:
        """Of a target's scrapes in the window those that were the newest at a collection."""
        times = _cut_of_days(lambda day: _collected(self, schedule, day), from_ms, until_ms)
        found: list[int] = times.tolist()
        return found

    def collect(
        self, times: Callable[[int, int], list[int]], from_ms: int, until_ms: int
    ) -> list[int]:
        """The same for any samples, of which faults may have removed some."""
        import numpy as np

        scraped = np.array(times(*self.around(from_ms, until_ms)), dtype=np.int64)
        found: list[int] = self.newest(scraped, from_ms, until_ms).tolist()
        return found

    def around(self, from_ms: int, until_ms: int) -> tuple[int, int]:
        """The window of the samples that decide which samples of a window are collected."""
        return from_ms - self.interval_ms - OLDEST_COLLECTED_MS, until_ms + self.interval_ms

    def newest(self, scraped: Integers, from_ms: int, until_ms: int) -> Integers:
        """Of samples around a window, those in it that are collected."""
        import numpy as np

        offset = _hashed(self.name) % self.interval_ms
        # A sample in the window may be collected by the first collection after the window.
        first = (from_ms - offset) // self.interval_ms
        last = (until_ms - offset) // self.interval_ms + 1
        at = offset + self.interval_ms * np.arange(first, last + 1, dtype=np.int64)
        places = scraped.searchsorted(at, side="right") - 1
        at, newest = at[places >= 0], scraped[places[places >= 0]]
        fresh = (newest > at - OLDEST_COLLECTED_MS) & (newest >= from_ms) & (newest < until_ms)
        found: Integers = np.unique(newest[fresh])
        return found


@lru_cache(maxsize=LARGEST_DAY_CACHE)
def _collected(collection: Federation, schedule: Schedule, day: int) -> Integers:
    window = day * DAY_MS, (day + 1) * DAY_MS
    return collection.newest(schedule.array(*collection.around(*window)), *window)


class Grid:
    """The times of one target's samples, part by part, and those of the last requested windows."""

    def __init__(
        self,
        block: Callable[[int, int], TimeBlock],
        part_ms: int = HOUR_MS,
        on_range: Callable[[int, int], None] | None = None,
    ) -> None:
        """`on_range` is called with every closed range that is returned."""
        self._block = block
        self._part_ms = part_ms
        self._on_range = on_range
        self._parts: OrderedDict[int, TimeBlock] = OrderedDict()
        self._windows: OrderedDict[tuple[int, int], TimeBlock] = OrderedDict()

    def shown(self, from_ms: int, until_ms: int) -> TimeBlock:
        """The samples in the closed range, which are counted as returned."""
        block = self.between(from_ms, until_ms)
        if self._on_range is not None:
            self._on_range(from_ms, until_ms)
        return block

    def between(self, from_ms: int, until_ms: int) -> TimeBlock:
        """The samples in the closed range; the same block for the same range."""
        window = (from_ms, until_ms)
        known = self._windows.get(window)
        if known is None:
            while len(self._windows) >= LARGEST_WINDOW_CACHE:
                self._windows.popitem(last=False)
            known = self._windows[window] = self._joined(from_ms, until_ms)
        return known

    def _joined(self, from_ms: int, until_ms: int) -> TimeBlock:
        cuts = [(block, *block.cut(from_ms, until_ms)) for block in self.blocks(from_ms, until_ms)]
        cuts = [(block, low, high) for block, low, high in cuts if low < high]
        if len(cuts) == 1:
            block, low, high = cuts[0]
            return block.part(low, high)
        times = [at for block, low, high in cuts for at in block.times[low:high]]
        real = [at for block, low, high in cuts for at in block.real[low:high]]
        return TimeBlock(times, real)

    def blocks(self, from_ms: int, until_ms: int) -> Iterator[TimeBlock]:
        """The parts that touch the closed range, in order."""
        for part in range(from_ms // self._part_ms, until_ms // self._part_ms + 1):
            yield self._parts.get(part) or self._compute_part(part)

    def first_time(self, from_ms: int, until_ms: int) -> int | None:
        """The first sample in the closed range."""
        for block in self.blocks(from_ms, until_ms):
            low, high = block.cut(from_ms, until_ms)
            if low < high:
                return block.times[low]
        return None

    def _compute_part(self, part: int) -> TimeBlock:
        block = self._block(part * self._part_ms, (part + 1) * self._part_ms)
        while len(self._parts) >= max(2, LARGEST_BLOCK_CACHE * HOUR_MS // self._part_ms):
            self._parts.popitem(last=False)
        self._parts[part] = block
        return block
