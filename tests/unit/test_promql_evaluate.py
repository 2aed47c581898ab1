"""Instants, ranges, look-back and the four functions, on samples written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import pytest

from fake_gpu.prometheus.evaluate import Dialect, evaluate_steps, raw_range
from fake_gpu.prometheus.language import Selector, parse_query
from fake_gpu.prometheus.matchers import Matcher, all_match
from fake_gpu.prometheus.refusals import QueryRefused
from fake_gpu.prometheus.series import WindowSeries

TWO, THREE = Dialect(left_open=False), Dialect(left_open=True)


class Handful:
    """A source of a few series."""

    def __init__(self, *series: WindowSeries) -> None:
        self.all = series

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[WindowSeries]:
        cut = (s.clipped(start_ms, end_ms) for s in self.all if all_match(matchers, s.labels))
        return [series for series in cut if series.parts or series.stale_ms]


def _series(samples: dict[int, float], *stale: int, **labels: str) -> WindowSeries:
    """Samples and staleness markers, in seconds."""
    made = WindowSeries.of({"__name__": "m", **labels}, {at * 1000: v for at, v in samples.items()})
    return WindowSeries(made.label_set, made.parts, tuple(at * 1000 for at in stale))


def _at(query: str, second: float, dialect: Dialect, *series: WindowSeries) -> list[float]:
    points = evaluate_steps(Handful(*series), parse_query(query), [round(second * 1000)], dialect)
    return [value for point in points for value in point.values]


def test_an_instant_takes_the_newest_sample_of_the_last_five_minutes() -> None:
    series = _series({0: 1, 30: 2, 60: 3})
    assert _at("m", 59, TWO, series) == [2]
    assert _at("m", 60, TWO, series) == [3]
    assert _at("m", 359, TWO, series) == [3]


def test_a_sample_as_old_as_the_look_back_counts_only_in_version_2() -> None:
    series = _series({60: 3})
    assert _at("m", 360, TWO, series) == [3]
    assert _at("m", 360, THREE, series) == []
    assert _at("m", 359.999, THREE, series) == [3]


def test_a_staleness_marker_ends_a_series_until_a_newer_sample() -> None:
    series = _series({0: 1, 30: 2, 120: 4}, 60)
    assert _at("m", 59, TWO, series) == [2]
    assert _at("m", 60, TWO, series) == []
    assert _at("m", 119, TWO, series) == []
    assert _at("m", 120, TWO, series) == [4]


def test_a_range_is_closed_in_version_2_and_left_open_in_version_3() -> None:
    source = Handful(_series({0: 1, 30: 2, 60: 3}))
    selector = parse_query("m[1m]")
    assert isinstance(selector, Selector)
    assert raw_range(source, selector, 60_000, TWO)[0].timestamps_ms == [0, 30_000, 60_000]
    assert raw_range(source, selector, 60_000, THREE)[0].timestamps_ms == [30_000, 60_000]


def test_an_hour_of_half_minutes_has_121_samples_in_2_and_120_in_3() -> None:
    series = _series(dict.fromkeys(range(0, 7201, 30), 1))
    assert _at("count_over_time(m[1h])", 7200, TWO, series) == [121]
    assert _at("count_over_time(m[1h])", 7200, THREE, series) == [120]


def test_an_offset_of_a_millisecond_gives_the_half_open_hour_in_both() -> None:
    series = _series({second: second for second in range(0, 7201, 30)})
    for dialect in (TWO, THREE):
        assert _at("count_over_time(m[1h] offset 1ms)", 7200, dialect, series) == [120]
        assert _at("min_over_time(m[1h] offset 1ms)", 7200, dialect, series) == [3600]
        assert _at("max_over_time(m[1h] offset 1ms)", 7200, dialect, series) == [7170]


@pytest.mark.parametrize("dialect", [TWO, THREE])
def test_the_functions_on_a_few_numbers(dialect: Dialect) -> None:
    series = _series({10: 1, 20: 2, 30: 6, 40: 3})
    assert _at("avg_over_time(m[1m])", 60, dialect, series) == [3]
    assert _at("max_over_time(m[1m])", 60, dialect, series) == [6]
    assert _at("min_over_time(m[1m])", 60, dialect, series) == [1]
    assert _at("count_over_time(m[1m])", 60, dialect, series) == [4]
    assert _at("max_over_time(m[25s])", 45, dialect, series) == [6]
    assert _at("max_over_time(m[1m] offset 25s)", 45, dialect, series) == [2]


@pytest.mark.parametrize("dialect", [TWO, THREE])
def test_nan_is_below_any_number_and_makes_the_mean_nan(dialect: Dialect) -> None:
    series = _series({10: nan, 20: 2, 30: 1})
    assert _at("max_over_time(m[1m])", 60, dialect, series) == [2]
    assert _at("min_over_time(m[1m])", 60, dialect, series) == [1]
    assert str(_at("avg_over_time(m[1m])", 60, dialect, series)) == "[nan]"


@pytest.mark.parametrize("dialect", [TWO, THREE])
def test_infinities_stay_infinite_in_the_mean(dialect: Dialect) -> None:
    assert _at("avg_over_time(m[1m])", 60, dialect, _series({10: inf, 20: 2, 30: inf})) == [inf]
    opposed = _at("avg_over_time(m[1m])", 60, dialect, _series({10: inf, 20: -inf}))
    assert str(opposed) == "[nan]"


@pytest.mark.parametrize("dialect", [TWO, THREE])
def test_the_mean_of_huge_numbers_does_not_overflow(dialect: Dialect) -> None:
    assert _at("avg_over_time(m[1m])", 60, dialect, _series({10: 1.7e308, 20: 1.7e308})) == [
        1.7e308
    ]


def test_several_metrics_in_one_function_are_refused_as_in_prometheus() -> None:
    one = WindowSeries.of({"__name__": "a", "pod": "p"}, {1000: 1})
    other = WindowSeries.of({"__name__": "b", "pod": "p"}, {1000: 2})
    with pytest.raises(QueryRefused) as refused:
        _at('avg_over_time({__name__=~"a|b"}[1m])', 30, TWO, one, other)
    assert refused.value.message == "vector cannot contain metrics with the same labelset"
    assert refused.value.http_status == 422
    # With different labels there is no conflict, so the same query succeeds.
    apart = WindowSeries.of({"__name__": "b", "pod": "q"}, {1000: 2})
    assert _at('avg_over_time({__name__=~"a|b"}[1m])', 30, TWO, one, apart) == [1, 2]


def test_steps_without_a_value_are_omitted() -> None:
    series = _series({0: 1, 900: 2})
    points = evaluate_steps(Handful(series), parse_query("m"), range(0, 1_200_001, 300_000), THREE)
    assert points[0].times_ms == [0, 900_000]
    assert points[0].values == [1, 2]


def test_a_range_vector_has_no_steps() -> None:
    with pytest.raises(QueryRefused) as refused:
        evaluate_steps(Handful(), parse_query("m[5m]"), [0], TWO)
    assert "must be Scalar or instant Vector" in refused.value.message
    assert refused.value.http_status == 400
