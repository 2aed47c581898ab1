"""The evaluator against definitions that are calculated sample by sample."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import fsum

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fake_gpu.prometheus.deduplicate import deduplicated
from fake_gpu.prometheus.evaluate import Dialect, evaluate_steps
from fake_gpu.prometheus.language import Call, Function, Selector, parse_query
from fake_gpu.prometheus.many_over_time import many_over_time
from fake_gpu.prometheus.matchers import Matcher, all_match
from fake_gpu.prometheus.over_time import each_over_time
from fake_gpu.prometheus.series import (
    ArraySamples,
    BlockSamples,
    ConstantSamples,
    LabelSet,
    TimeBlock,
    VaryingSamples,
    WindowSeries,
)

SAMPLES = st.dictionaries(
    st.integers(0, 2_000_000), st.integers(-1000, 1000).map(float), max_size=40
)
LABELS = st.sampled_from(["", "a", "ab", "b", "gpu-0", "x.y"])
OPERATORS = st.sampled_from(["=", "!=", "=~", "!~"])
DIALECTS = st.sampled_from([Dialect(left_open=False), Dialect(left_open=True)])


class One:
    """A source of one series."""

    def __init__(self, series: WindowSeries) -> None:
        self.series = series

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[WindowSeries]:
        cut = self.series.clipped(start_ms, end_ms)
        return [cut] if cut.parts else []


def _inside(samples: dict[int, float], end: int, length: int, dialect: Dialect) -> list[float]:
    oldest = end - length
    return [
        samples[at]
        for at in sorted(samples)
        if (oldest < at if dialect.left_open else oldest <= at) and at <= end
    ]


@given(
    SAMPLES,
    st.integers(0, 2_000_000),
    st.integers(1, 1_000_000),
    st.integers(-500_000, 500_000).filter(bool),
    DIALECTS,
)
def test_functions_equal_their_definitions(
    samples: dict[int, float], at: int, length: int, offset: int, dialect: Dialect
) -> None:
    source = One(WindowSeries.of({"__name__": "m"}, samples))
    inside = _inside(samples, at - offset, length, dialect)
    for function, plain in {"max": max, "min": min, "count": len}.items():
        sign = "-" if offset < 0 else ""
        query = f"{function}_over_time(m[{length}ms] offset {sign}{abs(offset)}ms)"
        points = evaluate_steps(source, parse_query(query), [at], dialect)
        assert [p.values for p in points] == ([[plain(inside)]] if inside else [])
    (mean,) = [
        *evaluate_steps(
            source,
            parse_query(f"avg_over_time(m[{length}ms] offset {offset}ms)".replace("- ", "-")),
            [at],
            dialect,
        ),
        None,
    ][:1]
    if inside:
        assert mean is not None
        assert abs(mean.values[0] - fsum(inside) / len(inside)) < 1e-9
    else:
        assert mean is None


@given(SAMPLES, st.lists(st.integers(0, 3_000_000), min_size=1, max_size=8, unique=True), DIALECTS)
def test_an_instant_is_the_newest_sample_within_the_look_back(
    samples: dict[int, float], steps: list[int], dialect: Dialect
) -> None:
    steps = sorted(steps)
    points = evaluate_steps(
        One(WindowSeries.of({"__name__": "m"}, samples)), parse_query("m"), steps, dialect
    )
    found = {at: value for p in points for at, value in zip(p.times_ms, p.values, strict=True)}
    expected = {}
    for step in steps:
        inside = _inside(samples, step, 300_000, dialect)
        if inside:
            expected[step] = inside[-1]
    assert found == expected


@given(
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0.1, 0.3, 7.0, -2.5])), max_size=6),
    DIALECTS,
)
def test_constant_values_evaluate_like_single_samples(
    runs: list[tuple[int, float]], dialect: Dialect
) -> None:
    """The fast path for constant values gives the same bits as the general path."""
    times = list(range(0, 1000 * sum(count for count, _ in runs), 1000))
    block = TimeBlock(times)
    pieces, at = [], 0
    for count, value in runs:
        pieces.append(ConstantSamples(block, at, at + count, value))
        at += count
    values = [value for count, value in runs for _ in range(count)]
    single = WindowSeries.of({"__name__": "m"}, dict(zip(times, values, strict=True)))
    joined = WindowSeries(single.label_set, tuple(pieces))
    query = parse_query("avg_over_time(m[1h])")
    answers = [
        [p.values for p in evaluate_steps(One(series), query, [400_000], dialect)]
        for series in (single, joined)
    ]
    assert answers[0] == answers[1]


@given(OPERATORS, LABELS, LABELS)
def test_matchers_agree_with_python_s_anchored_patterns(
    operator: str, pattern: str, value: str
) -> None:
    matcher = Matcher("label", operator, pattern)  # type: ignore[arg-type]
    plain = pattern == value if "~" not in operator else bool(re.fullmatch(pattern, value))
    expected = plain if operator in ("=", "=~") else not plain
    assert matcher.matches(value) is expected
    assert all_match([matcher], {"label": value} if value else {}) is expected


@given(
    st.sampled_from(["up", "kube_pod_info", ""]),
    st.lists(st.tuples(OPERATORS, st.text(max_size=5)), max_size=3),
    st.integers(1, 10**7),
    st.sampled_from(["", "avg_over_time", "count_over_time"]),
)
def test_a_written_query_is_read_back(
    name: str, conditions: list[tuple[str, str]], length: int, function: str
) -> None:
    written = ",".join(
        f'l{number}{operator}"{_quoted(value)}"'
        for number, (operator, value) in enumerate(conditions)
        if "~" not in operator
    )
    head = name or "up"
    inner = f"{head}{{{written}}}[{length}ms]"
    meant = parse_query(f"{function}({inner})" if function else inner)
    selector = meant.selector if isinstance(meant, Call) else meant
    assert isinstance(selector, Selector)
    assert selector.range_ms == length
    values = [m.value for m in selector.matchers if m.name != "__name__"]
    assert values == [value for operator, value in conditions if "~" not in operator]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@given(
    st.lists(
        st.dictionaries(st.text("ab_", min_size=1, max_size=3), st.text("ab-", max_size=3)),
        max_size=12,
    )
)
def test_the_quick_order_of_series_is_the_order_of_their_labels(sets: list[dict[str, str]]) -> None:
    made = [LabelSet(labels.items()) for labels in sets]
    quick = [each.key for each in sorted(made, key=lambda each: each.order)]
    assert quick == sorted(each.key for each in made)


@given(
    st.lists(st.integers(0, 200), unique=True, max_size=60),
    st.lists(st.integers(0, 200), unique=True, max_size=60),
    st.integers(0, 29_999),
)
def test_united_replicas_show_only_samples_that_a_replica_has_in_order(
    one: list[int], other: list[int], shift: int
) -> None:
    left = {at * 30_000: 1.0 for at in one}
    right = {at * 30_000 + shift: 2.0 for at in other}
    found = [WindowSeries.of({"r": "a"}, left), WindowSeries.of({"r": "b"}, right)]
    united = deduplicated(found, ["r"])[0]
    samples = list(zip(united.timestamps_ms, united.numbers, strict=True))
    assert samples == sorted(set(samples))
    assert all(left.get(at) == value or right.get(at) == value for at, value in samples)
    if left and right:
        assert samples[0][0] == min(min(left), min(right))


NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 7.0, -3.5, 1e301, float("nan"), float("inf")]),
    st.floats(0, 1e6),
)


@st.composite
def series_of_all_kinds(draw: st.DrawFn) -> WindowSeries:
    """Levels, arrays and lists over a few shared times, with gaps."""
    block = BLOCKS[draw(st.integers(0, len(BLOCKS) - 1))]
    edges = sorted(draw(st.sets(st.integers(0, len(block.times)), min_size=2, max_size=6)))
    pieces: list[BlockSamples] = []
    for low, high in pairwise(edges):
        numbers = draw(st.lists(NUMBERS, min_size=high - low, max_size=high - low))
        kind = draw(st.sampled_from(["level", "array", "list", "hole"]))
        if kind == "level":
            pieces.append(ConstantSamples(block, low, high, numbers[0]))
        elif kind == "array":
            pieces.append(ArraySamples(block, low, high, np.array(numbers)))
        elif kind == "list":
            pieces.append(VaryingSamples(block, low, high, numbers))
    return WindowSeries(LabelSet((("__name__", "m"),)), tuple(pieces))


BLOCKS = [
    TimeBlock(range(0, 60_000, 1_000)),
    TimeBlock([at + at % 7 for at in range(500, 90_000, 3_000)]),
]


@given(
    st.lists(series_of_all_kinds(), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 80_000), st.integers(0, 30_000)), min_size=1, max_size=6),
    st.sampled_from(["avg_over_time", "max_over_time", "min_over_time", "count_over_time"]),
    st.booleans(),
)
def test_many_series_evaluate_like_each_series_alone(
    found: list[WindowSeries], spans: list[tuple[int, int]], function: Function, direct: bool
) -> None:
    ranges = [(low, low + length) for low, length in spans]
    at_once = many_over_time(function, found, ranges, direct)
    singly = each_over_time(function, found, ranges, direct)
    # Compared as text, because -0 equals 0 and NaN does not equal itself.
    assert [list(map(repr, numbers)) for numbers in at_once] == [
        list(map(repr, numbers)) for numbers in singly
    ]
