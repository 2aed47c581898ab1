"""Samples as the evaluator takes them: series in parts that share their times.

Put here: the interface of a source of series, and its values.
Not here: labels (`label_sets`), where samples come from (`source`), or queries
(`evaluate`).

All series of one scrape have the same times, and most values stay the same for hours. So a part
is a cut of a shared `TimeBlock` with one value, and its JSON text is written once per block.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fake_gpu.exporters.numbers import answer_text
from fake_gpu.prometheus.label_sets import LabelPairs, LabelSet
from fake_gpu.prometheus.matchers import Matcher

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fake_gpu.prometheus.tables import Rows

# The cached cuts of one block; an hour of one target has a few dozen distinct ones.
LARGEST_CONSTANT_CACHE = 4096
# And the characters of their texts: a day of one series is 60 kB of them.
LARGEST_TEXT_CACHE = 4_000_000
# The decimals of a second: three, unless they are zero.
_DECIMALS = ("", *(f".{thousandths:03d}" for thousandths in range(1, 1000)))


class TimeBlock:
    """Ascending times of samples in milliseconds, shared by many series."""

    __slots__ = (
        "_arrays",
        "_constants",
        "_ends",
        "_fragments",
        "_fragments_size",
        "_texts",
        "real",
        "times",
    )

    def __init__(self, times: Sequence[int], real: Sequence[int] | None = None) -> None:
        self.times = tuple(times)  # of a tuple: itself
        # The true times of the scrapes, which decide their values; faults make the two differ.
        self.real = self.times if real is None else tuple(real)
        self._arrays: dict[bool, npt.NDArray[np.int64]] = {}
        self._texts: tuple[str, ...] | None = None
        self._ends: tuple[bytes, ...] | None = None
        self._fragments: dict[tuple[int, int, float], str] = {}
        self._fragments_size = 0
        self._constants: dict[tuple[int, int, float], ConstantSamples] = {}

    def part(self, low: int, high: int) -> TimeBlock:
        """The same times from one position to another."""
        times = self.times[low:high]
        return TimeBlock(times, None if self.real is self.times else self.real[low:high])

    def constant(self, low: int, high: int, value: float) -> ConstantSamples:
        """The cut with one value; equal ones are one, because most series are alike."""
        key = (low, high, value)
        known = self._constants.get(key)
        if known is None:
            if len(self._constants) >= LARGEST_CONSTANT_CACHE:
                self._constants.clear()
            known = self._constants[key] = ConstantSamples(self, low, high, value)
        return known

    def cut(self, from_ms: int, until_ms: int) -> tuple[int, int]:
        """The positions of the times in the closed range."""
        return bisect_left(self.times, from_ms), bisect_right(self.times, until_ms)

    def found(self, from_ms: int, until_ms: int) -> tuple[int, int]:
        """The positions of the scrapes that really were in the half-open range."""
        return bisect_left(self.real, from_ms), bisect_left(self.real, until_ms)

    def real_array(self) -> npt.NDArray[np.int64]:
        """The real times, for arithmetic on all of them at once."""
        return self._array(real=True)

    def times_array(self) -> npt.NDArray[np.int64]:
        """The written times, for the same."""
        return self._array(real=False)

    def _array(self, *, real: bool) -> npt.NDArray[np.int64]:
        known = self._arrays.get(real)
        if known is None:
            import numpy as np

            times = self.real if real else self.times
            known = self._arrays[real] = np.array(times, dtype=np.int64)
        return known

    def texts(self) -> tuple[str, ...]:
        if self._texts is None:
            seconds, rest = divmod(self.times_array(), 1000)
            pairs = zip(seconds.tolist(), rest.tolist(), strict=True)
            self._texts = tuple([f"{second}{_DECIMALS[more]}" for second, more in pairs])
        return self._texts

    def line_ends(self, low: int, high: int) -> tuple[bytes, ...]:
        """The times of a cut as lines of a file end; each preceded by the separator."""
        if self._ends is None:
            self._ends = tuple([f"{text}\n".encode() for text in self.texts()])
        return (b"", *self._ends[low:high])

    def fragment(self, low: int, high: int, value: float) -> str:
        """`[t,"v"],[t,"v"]` of a cut, as an answer writes it."""
        key = (low, high, value)
        known = self._fragments.get(key)
        if known is None:
            written = answer_text(value)
            joint = f',"{written}"],['
            known = f'[{joint.join(self.texts()[low:high])},"{written}"]'
            # -0 and 0 are equal keys and different texts; NaN is never found again.
            if value or written == "0":
                self._remember(key, known)
        return known

    def _remember(self, key: tuple[int, int, float], written: str) -> None:
        if self._fragments_size > LARGEST_TEXT_CACHE:
            self._fragments.clear()
            self._fragments_size = 0
        self._fragments[key] = written
        self._fragments_size += len(written)


@dataclass(slots=True)  # not frozen, and so made in a third of the time
class ConstantSamples:
    """The samples of one series in one block, all of one value."""

    block: TimeBlock
    low: int
    high: int
    value: float

    def __len__(self) -> int:
        return self.high - self.low

    @property
    def times(self) -> tuple[int, ...]:
        return self.block.times[self.low : self.high]

    def values(self) -> Sequence[float]:
        return (self.value,) * len(self)

    def fragment(self) -> str:
        return self.block.fragment(self.low, self.high, self.value)

    def clipped(self, from_ms: int, until_ms: int) -> ConstantSamples | None:
        """The part in the closed range, or None."""
        low, high = self.block.cut(from_ms, until_ms)
        low, high = max(low, self.low), min(high, self.high)
        if (low, high) == (self.low, self.high):
            return self
        return ConstantSamples(self.block, low, high, self.value) if low < high else None


@dataclass(frozen=True, slots=True)
class VaryingSamples:
    """Samples whose values differ from scrape to scrape: energy, durations of scrapes."""

    block: TimeBlock
    low: int
    high: int
    numbers: Sequence[float]  # one per time of the cut

    def __len__(self) -> int:
        return self.high - self.low

    @property
    def times(self) -> tuple[int, ...]:
        return self.block.times[self.low : self.high]

    def values(self) -> Sequence[float]:
        return self.numbers

    def fragment(self) -> str:
        texts = self.block.texts()[self.low : self.high]
        pairs = zip(texts, self.numbers, strict=True)
        return ",".join(f'[{text},"{answer_text(number)}"]' for text, number in pairs)

    def clipped(self, from_ms: int, until_ms: int) -> VaryingSamples | None:
        low, high = self.block.cut(from_ms, until_ms)
        low, high = max(low, self.low), min(high, self.high)
        if low >= high:
            return None
        numbers = self.numbers[low - self.low : high - self.low]
        return VaryingSamples(self.block, low, high, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class ArraySamples:
    """The same, as an array: the metrics of devices, of which a month has very many."""

    block: TimeBlock
    low: int
    high: int
    array: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return self.high - self.low

    @property
    def times(self) -> tuple[int, ...]:
        return self.block.times[self.low : self.high]

    @property
    def numbers(self) -> Sequence[float]:
        return self.values()

    def values(self) -> list[float]:
        numbers: list[float] = self.array.tolist()
        return numbers

    def fragment(self) -> str:
        return VaryingSamples(self.block, self.low, self.high, self.values()).fragment()

    def clipped(self, from_ms: int, until_ms: int) -> ArraySamples | None:
        low, high = self.block.cut(from_ms, until_ms)
        low, high = max(low, self.low), min(high, self.high)
        if (low, high) == (self.low, self.high):
            return self
        if low >= high:
            return None
        return ArraySamples(self.block, low, high, self.array[low - self.low : high - self.low])


BlockSamples = ConstantSamples | VaryingSamples | ArraySamples


@dataclass(slots=True)  # not frozen, and so made in a third of the time
class WindowSeries:
    """One series in a window: its samples in order, and the times of its staleness markers."""

    label_set: LabelSet  # with __name__
    parts: Sequence[BlockSamples]
    stale_ms: tuple[int, ...] = ()

    @classmethod
    def of(cls, labels: Mapping[str, str], samples: Mapping[int, float]) -> WindowSeries:
        """A series of a handful of samples."""
        times = sorted(samples)
        numbers = [samples[at] for at in times]
        part = VaryingSamples(TimeBlock(times), 0, len(times), numbers)
        return cls(LabelSet(labels.items()), (part,) if times else ())

    @property
    def labels(self) -> Mapping[str, str]:
        return self.label_set.mapping

    @property
    def key(self) -> LabelPairs:
        return self.label_set.key

    @property
    def timestamps_ms(self) -> list[int]:
        return list(chain.from_iterable(part.times for part in self.parts))

    @property
    def numbers(self) -> list[float]:
        return list(chain.from_iterable(part.values() for part in self.parts))

    @property
    def values(self) -> list[str]:
        """The values as an answer writes them."""
        return [answer_text(number) for number in self.numbers]

    def clipped(self, from_ms: int, until_ms: int) -> WindowSeries:
        """The samples and markers in the closed range; there may be none."""
        cut = (part.clipped(from_ms, until_ms) for part in self.parts)
        parts = tuple(part for part in cut if part is not None)
        stale = tuple(at for at in self.stale_ms if from_ms <= at <= until_ms)
        return WindowSeries(self.label_set, parts, stale)

    def last_before(self, until_ms: int, from_ms: int) -> float | None:
        """The newest value in the closed range, unless a staleness marker is newer."""
        for part in reversed(self.parts):
            low, high = part.block.cut(from_ms, until_ms)
            high = min(high, part.high)
            if max(low, part.low) >= high:
                continue
            sampled_ms = part.block.times[high - 1]
            if any(sampled_ms < stale <= until_ms for stale in self.stale_ms):
                return None
            return part.values()[high - 1 - part.low]
        return None


@runtime_checkable
class NamesSource(Protocol):
    """A source that knows which metrics it has without making all of their series."""

    def names_in(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> set[str]:
        """The names of the metrics that have samples in the closed range."""
        ...


@runtime_checkable
class RowsSource(Protocol):
    """A source that keeps series in tables."""

    def rows(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Rows] | None:
        """The rows of `select` in order; None where that is impossible."""
        ...


@runtime_checkable
class TablesSource(Protocol):
    """A source that lists its series metric by metric."""

    def metrics(self, matchers: Sequence[Matcher]) -> set[str]:
        """The names that there may be series of."""
        ...

    def rows_of(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Rows] | None:
        """The samples of one metric, cluster by cluster; None where it is not in tables."""
        ...

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[WindowSeries]:
        """As in `SeriesSource`."""
        ...


class SeriesSource(Protocol):
    """A source of series: a fleet, or a few samples in a test."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[WindowSeries]:
        """The series with samples in the closed range, in the order of their labels."""
        ...
