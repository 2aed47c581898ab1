"""Parts of a split query are disjoint, and together they equal the whole query.

Put here: splitting of queries, before and after a limit is exceeded.
Not here: recognising a limit (`test_thanos_answer`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from domain.interval import Interval
from ingestion.metric_catalogue import MetricQuery
from ingestion.thanos.attempt_client import BODY_BYTES_LIMIT
from ingestion.thanos.splitting import SAMPLES_LIMIT, FunctionQuery, RawQuery, Sizes, smaller

MIDNIGHT = datetime(2026, 10, 1, tzinfo=UTC)


def query(hours: int, metrics: tuple[str, ...] = ("a", "b", "c")) -> RawQuery:
    return RawQuery(
        MetricQuery("ask", metrics, ""), Interval(MIDNIGHT, MIDNIGHT + timedelta(hours=hours))
    )


def smallest(one: RawQuery) -> list[RawQuery]:
    pieces = smaller(one)
    return [last for piece in pieces for last in smallest(piece)] if pieces else [one]


def test_time_is_halved_first_in_whole_hours() -> None:
    assert [piece.hours for piece in smaller(query(24))] == [12, 12]
    assert [piece.hours for piece in smaller(query(3))] == [1, 2]


def test_then_metrics_are_halved() -> None:
    assert [piece.ask.metrics for piece in smaller(query(1))] == [("a",), ("b", "c")]


def test_pods_are_split_by_uid_and_series_without_one_are_kept() -> None:
    pieces = smaller(query(1, ("a",)))
    assert [piece.matcher for piece in pieces] == [
        'uid=~"[01234567].*"',
        'uid=~"[89abcdef].*"',
        'uid!~"[0123456789abcdef].*"',
    ]


def test_the_smallest_parts_cannot_be_split() -> None:
    pieces = smallest(query(1, ("a",)))
    assert len(pieces) == 17
    assert all(smaller(piece) == [] for piece in pieces)


def test_every_series_is_in_exactly_one_part() -> None:
    pieces = smallest(query(1, ("a",)))
    for uid in ("0f3c", "f000", "8b1d", "", "mirror-static", "A000", "-x"):
        assert sum(_matches(piece.matcher, uid) for piece in pieces) == 1, uid


def _matches(matcher: str, uid: str) -> bool:
    """Whether a matcher selects the UID as in Prometheus: anchored, an absent label is empty."""
    name, wanted, pattern = re.fullmatch(r'(uid)(=~|!~)"(.*)"', matcher).groups()  # type: ignore[union-attr]
    assert name == "uid"
    return bool(re.fullmatch(pattern, uid)) == (wanted == "=~")


def test_every_hour_and_metric_is_in_exactly_one_part() -> None:
    pieces = [piece for piece in smallest(query(5)) if piece.uid_digits == "0"]
    found = [(hour, piece.ask.metrics[0]) for piece in pieces for hour in piece.window.hours()]
    expected = [(MIDNIGHT + timedelta(hours=n), metric) for n in range(5) for metric in "abc"]
    assert sorted(found) == sorted(expected)


def test_functions_are_split_by_metric_first_and_then_by_whole_hours() -> None:
    selectors = tuple((metric, f"{metric}{{}}") for metric in "abc")
    whole = FunctionQuery("avg_over_time", selectors, query(3).window)
    one, others = whole.halves()
    assert (one.ask.name, others.ask.name) == ("*:avg_over_time", "*:avg_over_time")
    assert [piece.ask.metrics for piece in others.halves()] == [("b",), ("c",)]
    assert [piece.hours for piece in one.halves()] == [1, 2]
    smallest = [whole]
    while any(piece.halves() for piece in smallest):
        smallest = [half for piece in smallest for half in piece.halves() or [piece]]
    found = [(piece.window.started_at, piece.ask.metrics) for piece in smallest]
    hours = [MIDNIGHT + timedelta(hours=n) for n in range(3)]
    assert sorted(found) == sorted((hour, (metric,)) for hour in hours for metric in "abc")
    assert {piece.hours for piece in smallest} == {1}


def test_the_last_part_of_a_union_names_its_metric_like_the_union() -> None:
    """A larger part of another function has the same series with the name as a label."""
    window = query(1).window
    piece = FunctionQuery("max_over_time", (("a", "a{}"), ("b", "b{}")), window).halves()[0]
    called = "max_over_time(a{}[1h] offset 1ms)"
    assert piece.query == f'label_replace({called},"gpu_ledger_metric","a","","")'
    assert FunctionQuery("max_over_time", (("a", "a{}"),), window).query == called


def test_a_query_is_whole_until_its_size_is_known() -> None:
    assert Sizes().split(query(24)) == [query(24)]


def test_a_query_near_a_limit_is_split_in_advance() -> None:
    sizes = Sizes()
    sizes.learn(query(1), BODY_BYTES_LIMIT // 10, 100)
    assert [piece.hours for piece in sizes.split(query(24))] == [6, 6, 6, 6]
    assert [piece.hours for piece in sizes.split(query(6))] == [6]
    sizes.learn(query(1), 1000, SAMPLES_LIMIT // 2)
    assert [piece.hours for piece in sizes.split(query(4))] == [1, 1, 1, 1]


def test_the_size_of_a_part_does_not_change_the_known_size_of_the_whole() -> None:
    sizes = Sizes()
    for piece in smaller(query(1, ("a",))):
        sizes.learn(piece, BODY_BYTES_LIMIT, SAMPLES_LIMIT)
    assert sizes.split(query(24, ("a",))) == [query(24, ("a",))]
