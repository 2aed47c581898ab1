"""What a query answers, at an instant or at every step of a range.

Put here: look-back, ranges that are closed or left-open, the four functions, their refusals.
Not here: the language (`language`), JSON (`answer`).

The arithmetic is that of the two real servers, operation by operation, because their answers are
compared bit by bit: Prometheus 2 takes the mean incrementally, Prometheus 3 from the sum.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isinf, isnan

from fake_gpu.prometheus.language import METRIC_NAME, Call, Expression, Function, Selector
from fake_gpu.prometheus.refusals import Refused, bad_parameter
from fake_gpu.prometheus.series import AnyPiece, LabelSet, Piece, RawSeries, SeriesSource

SAME_LABELSET = "vector cannot contain metrics with the same labelset"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where the two versions of Prometheus differ."""

    left_open: bool  # 3: the oldest edge of a range and of the look-back is outside
    lookback_ms: int = 300_000

    def oldest(self, end_ms: int, length_ms: int) -> int:
        """The oldest millisecond inside a range that ends at `end_ms`."""
        return end_ms - length_ms + (1 if self.left_open else 0)


@dataclass(frozen=True, slots=True)
class Points:
    """One series of an answer: labels, and values at steps."""

    label_set: LabelSet
    times_ms: Sequence[int]
    values: Sequence[float]


def raw_range(
    source: SeriesSource, selector: Selector, at_ms: int, dialect: Dialect
) -> list[RawSeries]:
    """The samples of a range selector at an instant."""
    assert selector.range_ms is not None
    end_ms = at_ms - selector.offset_ms
    found = source.select(selector.matchers, dialect.oldest(end_ms, selector.range_ms), end_ms)
    return [series for series in found if series.pieces]


def evaluate_steps(
    source: SeriesSource, expression: Expression, steps_ms: Sequence[int], dialect: Dialect
) -> list[Points]:
    """The values of an instant vector at every step, for each series that has any."""
    if isinstance(expression, Call):
        return _call(source, expression, steps_ms, dialect)
    if expression.range_ms is not None:
        raise bad_parameter(
            "query",
            'invalid expression type "range vector" for range query, '
            "must be Scalar or instant Vector",
        )
    return _instants(source, expression, steps_ms, dialect)


def _instants(
    source: SeriesSource, selector: Selector, steps_ms: Sequence[int], dialect: Dialect
) -> list[Points]:
    offset = selector.offset_ms
    oldest = dialect.oldest(steps_ms[0] - offset, dialect.lookback_ms)
    answers = []
    for series in source.select(selector.matchers, oldest, steps_ms[-1] - offset):
        times, values = [], []
        for step in steps_ms:
            newest = step - offset
            value = series.last_before(newest, dialect.oldest(newest, dialect.lookback_ms))
            if value is not None:
                times.append(step)
                values.append(value)
        if times:
            answers.append(Points(series.label_set, times, values))
    return answers


def _call(
    source: SeriesSource, call: Call, steps_ms: Sequence[int], dialect: Dialect
) -> list[Points]:
    selector = call.selector
    assert selector.range_ms is not None
    offset, length = selector.offset_ms, selector.range_ms
    first = dialect.oldest(steps_ms[0] - offset, length)
    answers = []
    for series in source.select(selector.matchers, first, steps_ms[-1] - offset):
        times, values = [], []
        stretch = _Stretch(series)
        for step in steps_ms:
            end = step - offset
            pieces = stretch.between(dialect.oldest(end, length), end)
            if pieces:
                times.append(step)
                values.append(_aggregate(call.function, pieces, dialect.left_open))
        if times:
            nameless = series.label_set.without((METRIC_NAME,))
            answers.append(Points(nameless, times, values))
    _refuse_equal_labels(answers)
    return answers


def _refuse_equal_labels(answers: Sequence[Points]) -> None:
    if len({answer.label_set.key for answer in answers}) < len(answers):
        raise Refused("execution", SAME_LABELSET)


Run = tuple[float, int]  # a value, and how many times in a row


class _Stretch:
    """The pieces of a series, of which ranges are taken one after another."""

    def __init__(self, series: RawSeries) -> None:
        self.pieces = series.pieces
        self.firsts = [piece.block.times[piece.low] for piece in series.pieces]
        self.lasts = [piece.block.times[piece.high - 1] for piece in series.pieces]

    def between(self, from_ms: int, until_ms: int) -> list[AnyPiece]:
        """The samples of a closed range."""
        low = bisect_left(self.lasts, from_ms)
        high = bisect_right(self.firsts, until_ms)
        found: list[AnyPiece] = []
        for position in range(low, high):
            piece: AnyPiece | None = self.pieces[position]
            if self.firsts[position] < from_ms or self.lasts[position] > until_ms:
                piece = self.pieces[position].clipped(from_ms, until_ms)
            if piece is not None:
                found.append(piece)
        return found


def _aggregate(function: Function, pieces: Sequence[AnyPiece], direct_mean: bool) -> float:
    match function:
        case "count_over_time":
            return float(sum([piece.high - piece.low for piece in pieces]))
        case "max_over_time":
            return _extreme(pieces, largest=True)
        case "min_over_time":
            return _extreme(pieces, largest=False)
        case "avg_over_time":
            return _mean(pieces, direct_mean)


def _extreme(pieces: Sequence[AnyPiece], *, largest: bool) -> float:
    best = max if largest else min
    found: float | None = None
    for piece in pieces:
        if isinstance(piece, Piece):
            value = piece.value
        elif isnan(sum(piece.numbers)):
            value = _extreme_number(piece.numbers, largest=largest)
        else:
            value = best(piece.numbers)
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


def _mean(pieces: Sequence[AnyPiece], direct: bool) -> float:
    """Constant pieces come again and again; the mean of the same ones is taken once."""
    runs = tuple([(p.value, p.high - p.low) for p in pieces if isinstance(p, Piece)])
    if len(runs) == len(pieces):
        return _mean_of_runs(runs, direct)
    numbers = [number for piece in pieces for number in piece.values()]
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
