"""When an hour of the journal is closed, and when its lists are made."""

from __future__ import annotations

from datetime import datetime, timedelta

from domain.interval import HOUR
from ingestion.kubernetes.journal_calendar import PATIENCE, Calendar
from ingestion.kubernetes.known_objects import KnownObjects
from tests.kubernetes_by_hand import NOON

ONE = NOON + HOUR


def live_streams(*seconds: int) -> list[KnownObjects]:
    """Live streams with their last event so many seconds after noon."""
    streams = []
    for number, second in enumerate(seconds):
        stream = KnownObjects(f"r{number}")
        stream.hear(NOON + timedelta(seconds=second))
        streams.append(stream)
    return streams


def opened(at: datetime = NOON) -> Calendar:
    calendar = Calendar()
    calendar.reach(at)
    return calendar


def test_an_hour_closes_when_every_watch_has_an_event_after_its_end() -> None:
    calendar = opened()
    at = ONE + timedelta(seconds=30)
    calendar.reach(at)
    assert calendar.closable(at, live_streams(3600, 3630)) == [NOON]


def test_one_watch_without_an_event_keeps_the_hour_open() -> None:
    calendar = opened()
    at = ONE + timedelta(seconds=30)
    calendar.reach(at)
    assert calendar.closable(at, live_streams(3599, 3630)) == []


def test_a_silent_watch_delays_the_close_only_for_a_limited_time() -> None:
    calendar = opened()
    streams = live_streams(1200, 3630)
    first = ONE + timedelta(seconds=30)
    calendar.reach(first)
    assert calendar.closable(first, streams) == []
    almost = first + PATIENCE - timedelta(seconds=1)
    assert calendar.closable(almost, streams) == []
    assert calendar.closable(first + PATIENCE, streams) == [NOON]


def test_a_broken_watch_has_no_event() -> None:
    calendar = opened()
    streams = live_streams(3700, 3700)
    streams[0].live = False
    at = ONE + timedelta(seconds=100)
    calendar.reach(at)
    assert calendar.closable(at, streams) == []


def test_an_hour_that_is_not_over_is_never_closed() -> None:
    calendar = opened()
    assert calendar.closable(ONE - timedelta(seconds=1), live_streams(3599)) == []


def test_hours_during_a_stop_are_closed_oldest_first() -> None:
    calendar = opened()
    at = NOON + 3 * HOUR
    calendar.reach(at)
    assert calendar.closable(at, live_streams(3 * 3600)) == [NOON, ONE, NOON + 2 * HOUR]


def test_the_last_line_of_an_hour_names_the_complete_lists() -> None:
    calendar = opened()
    calendar.note_list(NOON + timedelta(minutes=1), "pods", complete=False)
    calendar.note_list(NOON + timedelta(minutes=2), "pods", complete=True)
    calendar.note_list(NOON + timedelta(minutes=3), "nodes", complete=False)
    assert calendar.close(NOON, ONE + timedelta(seconds=5)) == {
        "line": "hour_closed",
        "at": "2026-10-01T12:59:59Z",
        "closed_at": "2026-10-01T13:00:05Z",
        "hour": "2026-10-01T12:00:00Z",
        "lists": {"nodes": False, "pods": True},
    }
    assert calendar.open_hours == []


def test_a_clock_with_fractions_of_a_second_closes_hours() -> None:
    line = opened().close(NOON, ONE + timedelta(seconds=5, microseconds=100535))
    assert line["closed_at"] == "2026-10-01T13:00:05Z"


def test_hourly_lists_are_due_once_and_after_the_watches_reached_the_hour() -> None:
    calendar = opened()
    at = ONE + timedelta(seconds=30)
    calendar.reach(at)
    assert not calendar.list_due(at, live_streams(3500, 3630))
    assert calendar.list_due(at, live_streams(3610, 3630))
    calendar.listed_hour = ONE
    assert not calendar.list_due(at, live_streams(3610, 3630))
