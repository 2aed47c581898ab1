"""The four functions over the samples of a range, series by series, sample by sample.

Put here: mean, extremes and count, as the two real servers compute them.
Not here: which ranges there are (`evaluate`), the same for many series at once (`many_over_time`).

The arithmetic is that of the real servers, operation by operation, because their answers are
compared bit by bit: Prometheus 2 takes the mean incrementally, Prometheus 3 from the sum.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import isinf, isnan

from fake_gpu.prometheus.language import Function
from fake_gpu.prometheus.series import BlockSamples, ConstantSamples, WindowSeries

Range = tuple[int, int]  # the oldest and the newest millisecond, both inside
Numbers = Sequence[float | None]  # one per range; None where it has no sample
Run = tuple[float, int]  # a value, and how many times in a row


def each_over_time(
    function: Function, found: Iterable[WindowSeries], ranges: Sequence[Range], direct_mean: bool
) -> list[Numbers]:
    """The function over every range, for each series."""
    return [over_time(function, series, ranges, direct_mean) for series in found]


def over_time(
    function: Function, series: WindowSeries, ranges: Sequence[Range], direct_mean: bool
) -> Numbers:
    """The function over every range of one series."""
    interval = _Interval(series)
    numbers: list[float | None] = []
    for oldest, newest in ranges:
        parts = interval.between(oldest, newest)
        numbers.append(_aggregate(function, parts, direct_mean) if parts else None)
    return numbers


class _Interval:
    """The parts of a series, of which ranges are read one after another."""

    def __init__(self, series: WindowSeries) -> None:
        self.parts = series.parts
        self.firsts = [part.block.times[part.low] for part in series.parts]
        self.lasts = [part.block.times[part.high - 1] for part in series.parts]

    def between(self, from_ms: int, until_ms: int) -> list[BlockSamples]:
        """The samples of a closed range."""
        low = bisect_left(self.lasts, from_ms)
        high = bisect_right(self.firsts, until_ms)
        found: list[BlockSamples] = []
        for position in range(low, high):
            part: BlockSamples | None = self.parts[position]
            if self.firsts[position] < from_ms or self.lasts[position] > until_ms:
                part = self.parts[position].clipped(from_ms, until_ms)
            if part is not None:
                found.append(part)
        return found


def _aggregate(function: Function, parts: Sequence[BlockSamples], direct_mean: bool) -> float:
    match function:
        case "count_over_time":
            return float(sum([part.high - part.low for part in parts]))
        case "max_over_time":
            return _extreme(parts, largest=True)
        case "min_over_time":
            return _extreme(parts, largest=False)
        case "avg_over_time":
            return _mean(parts, direct_mean)


def _extreme(parts: Sequence[BlockSamples], *, largest: bool) -> float:
    best = max if largest else min
    found: float | None = None
    for part in parts:
        if isinstance(part, ConstantSamples):
            value = part.value
        elif isnan(sum(part.numbers)):
            value = _extreme_number(part.numbers, largest=largest)
        else:
            value = best(part.numbers)
        if found is None or isnan(found) or (value > found if largest else value < found):
            found = value
    assert found is not None, "a range without samples is not aggregated"
    return found


def _extreme_number(numbers: Sequence[float], *, largest: bool) -> float:
    """Of numbers of which some are none."""
    found = numbers[0]
    for value in numbers:
        if isnan(found) or (value > found if largest else value < found):
            found = value
    return found


def _mean(parts: Sequence[BlockSamples], direct: bool) -> float:
    """Constant parts come again and again; the mean of the same ones is taken once."""
    runs = tuple([(p.value, p.high - p.low) for p in parts if isinstance(p, ConstantSamples)])
    if len(runs) == len(parts):
        return _mean_of_runs(runs, direct)
    numbers = [number for part in parts for number in part.values()]
    return _direct_mean(numbers) if direct else _incremental_mean(numbers)


@lru_cache(maxsize=1 << 15)
def _mean_of_runs(runs: tuple[Run, ...], direct: bool) -> float:
    numbers = [value for value, repeated in runs for _ in range(repeated)]
    return _direct_mean(numbers) if direct else _incremental_mean(numbers)


def _incremental_mean(numbers: Sequence[float]) -> float:
    """The mean as Prometheus 2 takes it."""
    mean = compensation = 0.0
    for count, value in enumerate(numbers, 1):
        if isinf(mean) and not isnan(value) and (not isinf(value) or (mean > 0) == (value > 0)):
            continue
        increment = value / count - mean / count
        result = mean + increment
        # `_kahan`, written out: this is the innermost line of a month of telemetry.
        if abs(mean) >= abs(increment):
            compensation += (mean - result) + increment
        else:
            compensation += (increment - result) + mean
        mean = result
    return mean if isinf(mean) else mean + compensation


def _direct_mean(values: Sequence[float]) -> float:
    """The mean as Prometheus 3 takes it: from the sum, until the sum overflows."""
    total, compensation, mean = values[0], 0.0, 0.0
    incremental = False
    count = 1
    for value in values[1:]:
        count += 1
        if not incremental:
            new_total, new_compensation = _kahan_checked(value, total, compensation)
            if not isinf(new_total):
                total, compensation = new_total, new_compensation
                continue
            incremental = True
            mean = total / (count - 1)
            compensation /= count - 1
        part = (count - 1) / count
        mean, compensation = _kahan_checked(value / count, part * mean, part * compensation)
    return mean + compensation if incremental else total / count + compensation / count


def _kahan(increment: float, total: float, compensation: float) -> tuple[float, float]:
    result = total + increment
    if abs(total) >= abs(increment):
        return result, compensation + ((total - result) + increment)
    return result, compensation + ((increment - result) + total)


def _kahan_checked(increment: float, total: float, compensation: float) -> tuple[float, float]:
    if isinf(total + increment):
        return total + increment, 0.0
    return _kahan(increment, total, compensation)
