"""Smaller questions are disjoint, and together they are the whole.

Put here: how questions are made smaller, before and after a limit bites.
Not here: recognising a limit (`test_thanos_answer`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from domain.interval import Interval
from ingestion.metric_catalogue import MetricQuery
from ingestion.thanos.splitting import SAMPLES_LIMIT, FunctionQuery, RawQuery, Sizes, smaller
from ingestion.thanos.thanos_client import ANSWER_BYTES_LIMIT

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


def test_then_pods_are_told_apart_by_their_uid_and_what_has_none_is_kept() -> None:
    pieces = smaller(query(1, ("a",)))
    assert [piece.matcher for piece in pieces] == [
        'uid=~"[01234567].*"',
        'uid=~"[89abcdef].*"',
        'uid!~"[0123456789abcdef].*"',
    ]


def test_the_smallest_pieces_cannot_be_made_smaller() -> None:
    pieces = smallest(query(1, ("a",)))
    assert len(pieces) == 17
    assert all(smaller(piece) == [] for piece in pieces)


def test_every_series_falls_into_exactly_one_piece() -> None:
    pieces = smallest(query(1, ("a",)))
    for uid in ("0f3c", "f000", "8b1d", "", "mirror-static", "A000", "-x"):
        assert sum(_matches(piece.matcher, uid) for piece in pieces) == 1, uid


def _matches(matcher: str, uid: str) -> bool:
    """As Prometheus matches: anchored, and an absent label is the empty text."""
    name, wanted, pattern = re.fullmatch(r'(uid)(=~|!~)"(.*)"', matcher).groups()  # type: ignore[union-attr]
    assert name == "uid"
    return bool(re.fullmatch(pattern, uid)) == (wanted == "=~")


def test_every_hour_and_metric_falls_into_exactly_one_piece() -> None:
    pieces = [piece for piece in smallest(query(5)) if piece.uid_digits == "0"]
    found = [(hour, piece.ask.metrics[0]) for piece in pieces for hour in piece.window.hours()]
    expected = [(MIDNIGHT + timedelta(hours=n), metric) for n in range(5) for metric in "abc"]
    assert sorted(found) == sorted(expected)


def test_functions_are_halved_by_metric_first_and_then_by_whole_hours() -> None:
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


def test_what_is_left_of_a_union_names_its_metric_as_the_union_did() -> None:
    """Of another function the same series may come in a larger piece, with the name as a label."""
    window = query(1).window
    piece = FunctionQuery("max_over_time", (("a", "a{}"), ("b", "b{}")), window).halves()[0]
    called = "max_over_time(a{}[1h] offset 1ms)"
    assert piece.query == f'label_replace({called},"gpu_ledger_metric","a","","")'
    assert FunctionQuery("max_over_time", (("a", "a{}"),), window).query == called


def test_a_question_is_asked_whole_until_its_size_is_known() -> None:
    assert Sizes().split(query(24)) == [query(24)]


def test_a_question_that_would_come_near_a_limit_is_asked_in_pieces() -> None:
    sizes = Sizes()
    sizes.learn(query(1), ANSWER_BYTES_LIMIT // 10, 100)
    assert [piece.hours for piece in sizes.split(query(24))] == [6, 6, 6, 6]
    assert [piece.hours for piece in sizes.split(query(6))] == [6]
    sizes.learn(query(1), 1000, SAMPLES_LIMIT // 2)
    assert [piece.hours for piece in sizes.split(query(4))] == [1, 1, 1, 1]


def test_part_of_a_question_teaches_nothing_about_the_whole() -> None:
    sizes = Sizes()
    for piece in smaller(query(1, ("a",))):
        sizes.learn(piece, ANSWER_BYTES_LIMIT, SAMPLES_LIMIT)
    assert sizes.split(query(24, ("a",))) == [query(24, ("a",))]
