"""The result of a query, at an instant or at every step of a range.

Put here: look-back, ranges that are closed or left-open, refusals.
Not here: the language (`language`), the four functions (`over_time`), vectors together (`unions`),
JSON (`answer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from fake_gpu.prometheus.language import Call, Expression, LabelledVector, Part, Selector, Union
from fake_gpu.prometheus.many_over_time import MANY, many_over_time
from fake_gpu.prometheus.over_time import Numbers, each_over_time
from fake_gpu.prometheus.refusals import bad_parameter
from fake_gpu.prometheus.series import SeriesSource, WindowSeries
from fake_gpu.prometheus.unions import Points, labelled, refuse_equal_labels, united


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where the two versions of Prometheus differ."""

    left_open: bool  # 3: the oldest edge of a range and of the look-back is outside
    lookback_ms: int = 300_000

    def oldest(self, end_ms: int, length_ms: int) -> int:
        """The oldest millisecond inside a range that ends at `end_ms`."""
        return end_ms - length_ms + (1 if self.left_open else 0)


@runtime_checkable
class HintedSource(Protocol):
    """A source that answers otherwise inside a function: a store of coarse samples does."""

    def around(self, function: str) -> SeriesSource:
        """The source as it answers to the function."""
        ...


def raw_range(
    source: SeriesSource, selector: Selector, at_ms: int, dialect: Dialect
) -> list[WindowSeries]:
    """The samples of a range selector at an instant."""
    found = source.select(selector.matchers, *edges(selector, at_ms, dialect))
    return [series for series in found if series.parts]


def edges(selector: Selector, at_ms: int, dialect: Dialect) -> tuple[int, int]:
    """The oldest and the newest millisecond of a range selector at an instant."""
    assert selector.range_ms is not None
    end_ms = at_ms - selector.offset_ms
    return dialect.oldest(end_ms, selector.range_ms), end_ms


def evaluate_steps(
    source: SeriesSource, expression: Expression, steps_ms: Sequence[int], dialect: Dialect
) -> list[Points]:
    """The values of an instant vector at every step, for each series that has any."""
    if not isinstance(expression, Union):
        return _vector(source, expression, steps_ms, dialect)
    return united([_vector(source, part, steps_ms, dialect) for part in expression.parts])


def _vector(
    source: SeriesSource, expression: Part, steps_ms: Sequence[int], dialect: Dialect
) -> list[Points]:
    if isinstance(expression, LabelledVector):
        vector = _vector(source, expression.vector, steps_ms, dialect)
        return labelled(vector, expression.label, expression.text, any_name=dialect.left_open)
    if isinstance(expression, Call):
        if isinstance(source, HintedSource):
            source = source.around(expression.function)
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
    ends = [step - offset for step in steps_ms]
    ranges = [(dialect.oldest(end, length), end) for end in ends]
    found = source.select(selector.matchers, ranges[0][0], ends[-1])
    over_time = many_over_time if len(found) * len(steps_ms) >= MANY else each_over_time
    values = over_time(call.function, found, ranges, dialect.left_open)
    answers = []
    for series, numbers in zip(found, values, strict=True):
        points = _drop_missing(steps_ms, numbers)
        if points is not None:
            answers.append(Points(series.label_set.nameless, *points))
    refuse_equal_labels(answers)
    return answers


def _drop_missing(
    steps_ms: Sequence[int], numbers: Numbers
) -> tuple[Sequence[int], Sequence[float]] | None:
    """The steps that have a value, and the values."""
    if None not in numbers:
        return steps_ms, cast("Sequence[float]", numbers)
    pairs = [
        (at, number) for at, number in zip(steps_ms, numbers, strict=True) if number is not None
    ]
    return ([at for at, _ in pairs], [number for _, number in pairs]) if pairs else None
