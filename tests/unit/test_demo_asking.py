"""What is asked while a month goes on: every hour once but the forgotten one, at times of its own.

Put here: which hours are given to the process beside, and when.
Not here: the asking itself (`scenarios/test_demo_told`), or that process (`test_demo_beside`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from domain.decisions import Source
from domain.interval import HOUR, Interval
from orchestration.demo.asking import AT_ONCE, OLD, Asking, forgotten, pieces
from orchestration.demo.beside import Beside, Progress

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
MONTH = Interval(FIRST, FIRST + timedelta(days=31))
LIVED_UNTIL = MONTH.ended_at + HOUR


class Noted:
    """Stands for the process beside: notes what it is given, and says how far it is."""

    def __init__(self) -> None:
        self.given: list[tuple[Interval, datetime]] = []

    def begin(
        self,
        _: object,
        home: Path,
        urls: tuple[str, ...],
        source: Source,
        at: datetime,
        *of: Interval,
    ) -> None:
        self.given.append((of[0], at))

    def listen(self, report: Progress) -> None:
        report(len(self.given), 9, "alpha")


class Slow(Noted):
    """Is given as much, and does nothing."""

    def listen(self, report: Progress) -> None:
        report(0, 9, "beta")


def asking_of(span: Interval, helper: Noted, other: Noted) -> Asking:
    helpers = {Source.KUBERNETES: cast(Beside, helper), Source.THANOS: cast(Beside, other)}
    return Asking(helpers, Path(), (), span)


def lived(span: Interval, every: timedelta) -> list[tuple[Interval, datetime]]:
    """What is given while a clock goes through the span in steps of this length."""
    helper, other = Noted(), Noted()
    asking = asking_of(span, helper, other)
    now = span.started_at
    while now < span.ended_at + HOUR:
        asking.go_on(now)
        now += every
    asking.go_on(span.ended_at + HOUR, is_over=True)
    assert helper.given == other.given
    return helper.given


@pytest.mark.parametrize("days", [1, 4, 5, 31])
def test_every_hour_is_asked_once_but_the_forgotten_one(days: int) -> None:
    span = Interval(FIRST, FIRST + timedelta(days=days))
    given = lived(span, HOUR)
    hours = [hour for piece, _ in given for hour in piece.hours()]
    assert hours == [hour for hour in span.hours() if hour != forgotten(span)]
    assert all(piece.ended_at - piece.started_at <= AT_ONCE for piece, _ in given)


def test_a_span_of_one_hour_has_nothing_to_ask_at_first() -> None:
    assert pieces(Interval(FIRST, FIRST + HOUR)) == []


def test_when_it_is_asked_follows_from_the_hours_however_the_clock_goes() -> None:
    slowly, fast = lived(MONTH, HOUR), lived(MONTH, timedelta(days=3))
    assert slowly == fast
    assert [at for _, at in slowly] == [
        min(piece.ended_at + OLD, LIVED_UNTIL) for piece, _ in slowly
    ]


def test_nothing_is_asked_before_it_is_a_day_old() -> None:
    helper = Noted()
    asking = asking_of(MONTH, helper, Noted())
    first = pieces(MONTH)[0]
    asking.go_on(first.ended_at + OLD - timedelta(seconds=1))
    assert (helper.given, asking.words) == ([], "0 of 9 hours are asked")
    asking.go_on(first.ended_at + OLD)
    assert helper.given == [(first, first.ended_at + OLD)]
    assert asking.words == "1 of 9 hours are asked"


def test_an_hour_counts_as_asked_when_both_sources_were() -> None:
    asking = asking_of(MONTH, Noted(), Slow())
    asking.go_on(LIVED_UNTIL)
    assert asking.words == "0 of 9 hours are asked"
