"""When targets are scraped: intervals, offsets, late scrapes, and what a collector takes of them.

Put here: the times of the samples of one target in one Prometheus replica.
Not here: what a scrape finds (`histories`), faults that lose scrapes (`faults`).

A Prometheus scrapes each target at its own offset within the interval, by a hash of the target and
of itself, and writes the intended time unless it is late by more than two milliseconds. So most
times lie on a grid, and a few are late by some milliseconds. All of it comes from hashes.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from fake_gpu.prometheus.series import TimeBlock

HOUR_MS = 3_600_000
# One scrape in this many is late, by at most this much: what a busy Prometheus shows.
LATE_ONE_IN = 40
LATEST_MS = 47
SMALLEST_LATENESS_MS = 3  # below it, Prometheus writes the intended time
# One digest of 64 bytes says of 32 scrapes whether they are late, and by how much.
_SCRAPES_PER_DIGEST = 32
# What a federation still finds: the look-back of the Prometheus that it asks.
OLDEST_COLLECTED_MS = 300_000
# Hours of times that one grid keeps; older ones are computed again when asked for.
LARGEST_BLOCK_CACHE = 48
# A pull asks for a window of allocation and one of telemetry, again and again.
LARGEST_WINDOW_CACHE = 4


@dataclass(frozen=True, slots=True)
class Schedule:
    """The scrapes of one target by one Prometheus replica."""

    name: str  # unique per target and replica; the offset and the lateness come from it
    interval_ms: int
    late_one_in: int = LATE_ONE_IN  # 0: never late

    @property
    def offset_ms(self) -> int:
        return _hashed(self.name) % self.interval_ms

    def times(self, from_ms: int, until_ms: int) -> list[int]:
        """The scrapes in `[from_ms, until_ms)`; a late one belongs where it was written."""
        offset, interval = self.offset_ms, self.interval_ms
        first = (from_ms - LATEST_MS - offset) // interval
        last = (until_ms - 1 - offset) // interval
        times = list(range(offset + first * interval, offset + last * interval + 1, interval))
        if self.late_one_in:
            for block in range(first // _SCRAPES_PER_DIGEST, last // _SCRAPES_PER_DIGEST + 1):
                for position, lateness in _late(self.name, block, self.late_one_in):
                    index = block * _SCRAPES_PER_DIGEST + position
                    if first <= index <= last:
                        times[index - first] += lateness
        low, high = bisect_left(times, from_ms), bisect_left(times, until_ms)
        return times[low:high]

    def newest(self, at_ms: int) -> int:
        """The last scrape until and including a millisecond."""
        index = (at_ms - self.offset_ms) // self.interval_ms
        while True:
            time = self.offset_ms + index * self.interval_ms + self._lateness(index)
            if time <= at_ms:
                return time
            index -= 1

    def _lateness(self, index: int) -> int:
        if not self.late_one_in:
            return 0
        block, position = divmod(index, _SCRAPES_PER_DIGEST)
        return dict(_late(self.name, block, self.late_one_in)).get(position, 0)


@lru_cache(maxsize=1 << 14)
def _hashed(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


@lru_cache(maxsize=1 << 13)
def _late(name: str, block: int, one_in: int) -> tuple[tuple[int, int], ...]:
    """The late ones of a block of scrapes: their positions, and by how many milliseconds."""
    digest = hashlib.sha512(f"{name}\n{block}".encode()).digest()
    spread = LATEST_MS - SMALLEST_LATENESS_MS + 1
    return tuple(
        (position, SMALLEST_LATENESS_MS + digest[2 * position + 1] * spread // 256)
        for position, chance in enumerate(digest[::2])
        if chance * one_in < 256
    )


@dataclass(frozen=True, slots=True)
class Collection:
    """A collector that takes the newest sample of everything at its own interval (federation)."""

    name: str
    interval_ms: int

    def taken(
        self, times: Callable[[int, int], list[int]], from_ms: int, until_ms: int
    ) -> list[int]:
        """Of the samples in the window those that were the newest at a collection."""
        scraped = times(from_ms - HOUR_MS, until_ms + self.interval_ms)

        def newest(at_ms: int) -> int:
            position = bisect_right(scraped, at_ms)
            return scraped[position - 1] if position else at_ms - OLDEST_COLLECTED_MS

        return self.newest_of(newest, from_ms, until_ms)

    def newest_of(self, newest: Callable[[int], int], from_ms: int, until_ms: int) -> list[int]:
        """The same, for whom it is quicker to ask for the newest sample at an instant."""
        offset = _hashed(self.name) % self.interval_ms
        # A sample in the window may be taken by the first collection after the window.
        first = (from_ms - offset) // self.interval_ms
        last = (until_ms - offset) // self.interval_ms + 1
        taken: list[int] = []
        for index in range(first, last + 1):
            at = offset + index * self.interval_ms
            found = newest(at)
            if found <= at - OLDEST_COLLECTED_MS or not from_ms <= found < until_ms:
                continue
            if not taken or taken[-1] != found:
                taken.append(found)
        return taken


class Grid:
    """The times of one target's samples, hour by hour, and those of the windows asked for last."""

    def __init__(self, block: Callable[[int, int], TimeBlock]) -> None:
        self._block = block
        self._hours: OrderedDict[int, TimeBlock] = OrderedDict()
        self._windows: OrderedDict[tuple[int, int], TimeBlock] = OrderedDict()

    def between(self, from_ms: int, until_ms: int) -> TimeBlock:
        """The samples in the closed range; the same block for whoever asks for the same range."""
        window = (from_ms, until_ms)
        known = self._windows.get(window)
        if known is None:
            while len(self._windows) >= LARGEST_WINDOW_CACHE:
                self._windows.popitem(last=False)
            known = self._windows[window] = self._joined(from_ms, until_ms)
        return known

    def _joined(self, from_ms: int, until_ms: int) -> TimeBlock:
        times: list[int] = []
        real: list[int] = []
        for block in self.blocks(from_ms, until_ms):
            low, high = block.cut(from_ms, until_ms)
            times += block.times[low:high]
            real += block.real[low:high]
        return TimeBlock(times, real)

    def blocks(self, from_ms: int, until_ms: int) -> Iterator[TimeBlock]:
        """The hours that touch the closed range, in order."""
        for hour in range(from_ms // HOUR_MS, until_ms // HOUR_MS + 1):
            yield self._hours.get(hour) or self._hour(hour)

    def first_time(self, from_ms: int, until_ms: int) -> int | None:
        """The first sample in the closed range."""
        for block in self.blocks(from_ms, until_ms):
            low, high = block.cut(from_ms, until_ms)
            if low < high:
                return block.times[low]
        return None

    def _hour(self, hour: int) -> TimeBlock:
        block = self._block(hour * HOUR_MS, (hour + 1) * HOUR_MS)
        while len(self._hours) >= LARGEST_BLOCK_CACHE:
            self._hours.popitem(last=False)
        self._hours[hour] = block
        return block
