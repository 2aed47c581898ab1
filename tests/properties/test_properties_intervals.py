"""Intervals over random input, compared with sets of single seconds.

Put here: properties of `domain.interval`, `domain.validity` and `domain.billing_period`.
Not here: situations calculated by hand (`tests/unit/test_interval`).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from domain.billing_period import BillingPeriod
from domain.errors import InvalidValue
from domain.interval import (
    HOUR,
    Interval,
    format_instant,
    intersection,
    parse_instant,
    subtract,
    total_seconds,
    union,
)
from domain.validity import Validity

START = datetime(2026, 10, 31, 23, 59, tzinfo=UTC)  # a minute before the end of a month
SECONDS = 120


def second(offset: int) -> datetime:
    return START + timedelta(seconds=offset)


offsets = st.integers(0, SECONDS)
intervals = st.tuples(offsets, offsets).map(lambda p: Interval(second(min(p)), second(max(p))))
some = st.lists(intervals, max_size=8)


def seconds_of(covered: list[Interval]) -> set[int]:
    """The covered seconds, one by one."""
    return {n for n in range(SECONDS) for i in covered if i.started_at <= second(n) < i.ended_at}


def is_disjoint_and_ordered(pieces: list[Interval]) -> bool:
    return all(a.ended_at <= b.started_at for a, b in pairwise(pieces))


@given(left=some, right=some)
def test_the_operations_are_those_of_sets_of_seconds(
    left: list[Interval], right: list[Interval]
) -> None:
    ours, others = seconds_of(left), seconds_of(right)
    assert seconds_of(union(left)) == ours
    assert seconds_of(intersection(left, right)) == ours & others
    assert seconds_of(subtract(left, right)) == ours - others
    assert total_seconds(left) == len(ours)
    for pieces in (union(left), intersection(left, right), subtract(left, right)):
        assert is_disjoint_and_ordered(pieces)
        assert all(pieces)
        assert sum(piece.seconds for piece in pieces) == len(seconds_of(pieces))


@given(pieces=some, order=st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing(pieces: list[Interval], order: object) -> None:
    shuffled = [*pieces, *pieces]
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert union(shuffled) == union(pieces)
    assert union(union(pieces)) == union(pieces)


@given(one=intervals, other=intervals)
def test_overlap_is_a_shared_second_and_clipping_is_what_is_shared(
    one: Interval, other: Interval
) -> None:
    shared = seconds_of([one]) & seconds_of([other])
    assert one.overlaps(other) is other.overlaps(one) is bool(shared)
    clipped = one.clipped_to(other)
    assert (seconds_of([clipped]) if clipped else set()) == shared


@given(whole=intervals, cuts=st.lists(offsets, max_size=10))
def test_splitting_anywhere_changes_no_total(whole: Interval, cuts: list[int]) -> None:
    pieces = whole.split_at(second(cut) for cut in cuts)
    assert sum(piece.seconds for piece in pieces) == whole.seconds
    assert seconds_of(pieces) == seconds_of([whole])
    assert union(pieces) == union([whole])
    assert is_disjoint_and_ordered(pieces)


instants = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001
    lambda naive: naive.replace(microsecond=0, tzinfo=UTC)
)
long_intervals = st.tuples(instants, st.integers(0, 40 * 86_400)).map(
    lambda pair: Interval(pair[0], pair[0] + timedelta(seconds=pair[1]))
)


@given(interval=long_intervals)
def test_hours_cover_the_interval_and_none_is_empty(interval: Interval) -> None:
    pieces = interval.split_at_hours()
    hours = list(interval.hours())
    assert len(pieces) == len(hours)
    assert sum(piece.seconds for piece in pieces) == interval.seconds
    for piece, hour in zip(pieces, hours, strict=True):
        assert 0 < piece.seconds <= 3600
        assert hour <= piece.started_at < piece.ended_at <= hour + HOUR


@given(interval=long_intervals)
def test_months_cover_the_interval_too(interval: Interval) -> None:
    period, seconds = BillingPeriod.containing(interval.started_at), 0
    while period.started_at < interval.ended_at:
        piece = interval.clipped_to(period.interval)
        seconds += piece.seconds if piece else 0
        period = period.next()
    assert seconds == interval.seconds


ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata",
         "Pacific/Apia", "America/St_Johns", "Africa/Casablanca", "Asia/Kathmandu"]  # fmt: skip


@given(
    zone=st.sampled_from(ZONES),
    first=st.dates(date(2010, 1, 1), date(2040, 1, 1)),
    day_count=st.integers(1, 60),
)
def test_local_days_of_any_length_add_up(zone: str, first: date, day_count: int) -> None:
    """Clocks of Lord Howe move by half an hour; Apia skipped a whole day in 2011."""
    midnights = [
        datetime.combine(first + timedelta(days=n), time(), ZoneInfo(zone)).astimezone(UTC)
        for n in range(day_count + 1)
    ]
    whole = Interval(midnights[0], midnights[-1])
    days = whole.split_at(midnights)
    assert sum(day.seconds for day in days) == whole.seconds
    assert sum(p.seconds for day in days for p in day.split_at_hours()) == whole.seconds
    assert seconds_by_hour(days) == seconds_by_hour([whole])


def seconds_by_hour(covered: list[Interval]) -> dict[datetime, int]:
    seconds: dict[datetime, int] = {}
    for interval in covered:
        for piece in interval.split_at_hours():
            hour = piece.started_at.replace(minute=0, second=0)
            seconds[hour] = seconds.get(hour, 0) + piece.seconds
    return seconds


@given(begin=offsets, end=st.none() | offsets, other_begin=offsets, other_end=st.none() | offsets)
def test_validities_overlap_where_both_hold(
    begin: int, end: int | None, other_begin: int, other_end: int | None
) -> None:
    if (end is not None and end <= begin) or (other_end is not None and other_end <= other_begin):
        return
    one = Validity(second(begin), None if end is None else second(end))
    other = Validity(second(other_begin), None if other_end is None else second(other_end))
    both = [n for n in range(SECONDS + 1) if all(v.contains(second(n)) for v in (one, other))]
    assert one.overlaps(other) is other.overlaps(one) is bool(both)
    window = Interval(second(0), second(SECONDS + 1))
    clipped = one.clipped_to(window)
    assert clipped is not None
    assert clipped.seconds == sum(one.contains(second(n)) for n in range(SECONDS + 1))


@given(instant=instants, minutes=st.integers(-14 * 60, 14 * 60))
def test_a_time_is_read_back_from_any_zone(instant: datetime, minutes: int) -> None:

    elsewhere = instant.astimezone(timezone(timedelta(minutes=minutes)))
    assert parse_instant(format_instant(instant)) == instant
    assert parse_instant(elsewhere.isoformat()) == instant
    assert parse_instant(elsewhere.isoformat().replace("T", " ")) == instant


@given(text=st.text(alphabet="0123456789-:+TZ .W", max_size=30) | st.text(max_size=30))
def test_any_text_is_a_time_or_is_refused(text: str) -> None:
    try:
        instant = parse_instant(text)
    except InvalidValue:
        return
    assert instant.tzinfo is UTC
    assert instant.microsecond == 0
    assert parse_instant(format_instant(instant)) == instant
