"""Half-open intervals: boundaries, time zones and operations, compared with hand calculations.

Put here: the behaviour of `domain.interval` and `domain.validity`, one situation per test.
Not here: the same over random input (`tests/properties/test_properties_intervals`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from domain.errors import InvalidValue
from domain.interval import (
    Interval,
    format_instant,
    hour_of,
    intersection,
    parse_instant,
    subtract,
    total_seconds,
    union,
)
from domain.validity import Validity


def at(text: str) -> datetime:
    """The instant of one day at these hours and minutes."""
    return datetime.fromisoformat(f"2026-10-01T{text}:00+00:00")


def between(text: str) -> Interval:
    """`10:00-11:30`"""
    started_at, ended_at = text.split("-")
    return Interval(at(started_at), at(ended_at))


def timetable(intervals: list[Interval]) -> list[str]:
    return [f"{i.started_at:%H:%M}-{i.ended_at:%H:%M}" for i in intervals]


def test_an_interval_contains_its_first_instant_and_not_its_last() -> None:
    ten_to_eleven = between("10:00-11:00")
    assert ten_to_eleven.contains(at("10:00"))
    assert ten_to_eleven.contains(at("10:59"))
    assert not ten_to_eleven.contains(at("11:00"))
    assert ten_to_eleven.seconds == 3600


def test_neighbours_do_not_overlap_and_one_second_does() -> None:
    assert not between("10:00-11:00").overlaps(between("11:00-12:00"))
    assert not between("11:00-12:00").overlaps(between("10:00-11:00"))
    one_second_later = Interval(at("10:59") + timedelta(seconds=59), at("12:00"))
    assert between("10:00-11:00").overlaps(one_second_later)


def test_an_empty_interval_is_false_has_no_seconds_and_touches_no_hour() -> None:
    empty = Interval(at("10:30"), at("10:30"))
    assert not empty
    assert empty.seconds == 0
    assert list(empty.hours()) == []
    assert empty.split_at_hours() == []
    assert not empty.overlaps(empty)
    assert not empty.overlaps(between("10:00-11:00"))
    assert not between("10:00-11:00").overlaps(empty)
    assert empty.clipped_to(between("10:00-11:00")) is None


def test_an_end_before_the_start_is_refused_with_both_times() -> None:
    with pytest.raises(InvalidValue) as refused:
        Interval(at("11:00"), at("10:00"))
    assert "2026-10-01T10:00:00Z" in refused.value.seen
    assert "2026-10-01T11:00:00Z" in refused.value.seen


@pytest.mark.parametrize("naive_at", ["started_at", "ended_at"])
def test_a_time_without_a_zone_is_refused(naive_at: str) -> None:
    times = {"started_at": at("10:00"), "ended_at": at("11:00")}
    times[naive_at] = times[naive_at].replace(tzinfo=None)
    with pytest.raises(InvalidValue, match="no time zone"):
        Interval(**times)


def test_a_fraction_of_a_second_is_refused() -> None:
    with pytest.raises(InvalidValue, match="fraction"):
        Interval(at("10:00") + timedelta(microseconds=1), at("11:00"))


def test_other_zones_become_utc() -> None:
    kolkata = timezone(timedelta(hours=5, minutes=30))
    interval = Interval(at("10:00").astimezone(kolkata), at("11:00"))
    assert interval == between("10:00-11:00")
    assert interval.started_at.tzinfo is UTC


def test_a_pod_ending_exactly_on_the_hour_leaves_no_empty_hour() -> None:
    assert list(between("10:30-12:00").hours()) == [at("10:00"), at("11:00")]
    assert timetable(between("10:30-12:00").split_at_hours()) == ["10:30-11:00", "11:00-12:00"]


def test_an_interval_inside_one_hour_is_not_split() -> None:
    assert between("10:10-10:20").split_at_hours() == [between("10:10-10:20")]


def test_cuts_at_the_edges_outside_or_repeated_add_no_part() -> None:
    cuts = [at("10:00"), at("09:00"), at("11:00"), at("10:30"), at("10:30"), at("12:00")]
    assert timetable(between("10:00-11:00").split_at(cuts)) == ["10:00-10:30", "10:30-11:00"]


def test_clipping_keeps_the_part_inside_or_none() -> None:
    assert between("09:00-12:00").clipped_to(between("10:00-11:00")) == between("10:00-11:00")
    assert between("09:00-10:30").clipped_to(between("10:00-11:00")) == between("10:00-10:30")
    assert between("09:00-10:00").clipped_to(between("10:00-11:00")) is None


def test_union_joins_overlapping_and_touching_intervals() -> None:
    pieces = ["12:00-13:00", "10:00-11:00", "10:30-11:30", "11:30-11:45", "10:15-10:20"]
    assert timetable(union(map(between, pieces))) == ["10:00-11:45", "12:00-13:00"]
    assert union([Interval(at("10:00"), at("10:00"))]) == []


def test_a_long_outage_contains_the_short_ones_inside_it() -> None:
    pieces = ["10:00-14:00", "11:00-12:00", "13:30-14:30"]
    assert timetable(union(map(between, pieces))) == ["10:00-14:30"]
    assert total_seconds(map(between, pieces)) == 4 * 3600 + 1800


def test_subtraction_leaves_the_time_between_the_subtracted() -> None:
    whole = [between("10:00-14:00"), between("15:00-16:00")]
    holes = map(between, ["09:00-10:30", "11:00-11:30", "11:15-12:00", "13:59-15:30"])
    assert timetable(subtract(whole, holes)) == ["10:30-11:00", "12:00-13:59", "15:30-16:00"]


def test_subtracting_nothing_or_everything() -> None:
    whole = [between("10:00-11:00")]
    assert subtract(whole, []) == whole
    assert subtract(whole, whole) == []
    assert subtract([], whole) == []


def test_one_subtracted_interval_can_cut_two_neighbours() -> None:
    whole = [between("10:00-11:00"), between("12:00-13:00")]
    assert timetable(subtract(whole, [between("10:30-12:30")])) == ["10:00-10:30", "12:30-13:00"]


def test_intersection_is_the_time_in_both() -> None:
    left = map(between, ["10:00-12:00", "13:00-14:00"])
    right = map(between, ["11:00-13:30", "13:45-15:00"])
    assert timetable(intersection(left, right)) == ["11:00-12:00", "13:00-13:30", "13:45-14:00"]
    assert intersection([between("10:00-11:00")], [between("11:00-12:00")]) == []


@pytest.mark.parametrize(
    ("day", "hour_count"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)]
)
def test_local_days_have_23_and_25_hours_and_lose_none(day: str, hour_count: int) -> None:
    """In Berlin, daylight saving time began on 29 March 2026 and ended on 25 October 2026."""
    berlin = ZoneInfo("Europe/Berlin")
    midnight = datetime.fromisoformat(day).replace(tzinfo=berlin)
    local_day = Interval(midnight, midnight + timedelta(days=1))  # wall-clock arithmetic
    assert len(list(local_day.hours())) == hour_count
    assert local_day.seconds == hour_count * 3600
    assert sum(piece.seconds for piece in local_day.split_at_hours()) == local_day.seconds


def test_the_repeated_local_hour_is_two_different_hours() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    second = first.replace(fold=1)
    assert format_instant(first) == "2026-10-25T00:30:00Z"
    assert format_instant(second) == "2026-10-25T01:30:00Z"
    assert Interval(first, second).seconds == 3600


def test_half_hour_zones_do_not_move_the_hour() -> None:
    kolkata = ZoneInfo("Asia/Kolkata")
    assert hour_of(datetime(2026, 10, 1, 11, 10, tzinfo=kolkata)) == at("05:00")  # 05:40 UTC


def test_the_hour_of_a_sample_with_milliseconds_contains_it() -> None:
    assert hour_of(at("10:59") + timedelta(seconds=59, milliseconds=999)) == at("10:00")
    assert hour_of(at("11:00")) == at("11:00")


def test_the_hour_of_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidValue):
        hour_of(at("10:00").replace(tzinfo=None))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-10-01T10:00:00Z", "2026-10-01T10:00:00Z"),
        (" 2026-10-01T10:00:00Z ", "2026-10-01T10:00:00Z"),
        ("2026-10-01T10:00:00.000Z", "2026-10-01T10:00:00Z"),
        ("2026-10-01T10:00:00.000000000Z", "2026-10-01T10:00:00Z"),
        ("2026-10-01T10:00Z", "2026-10-01T10:00:00Z"),
        ("2026-10-01 10:00:00+00:00", "2026-10-01T10:00:00Z"),
        ("2026-10-01T12:00:00+02:00", "2026-10-01T10:00:00Z"),
        ("2026-10-01T00:30:00+05:30", "2026-09-30T19:00:00Z"),
        ("2026-10-01", "2026-10-01T00:00:00Z"),
        ("2028-02-29", "2028-02-29T00:00:00Z"),
    ],
)
def test_times_are_read_in_their_common_forms(text: str, expected: str) -> None:
    assert format_instant(parse_instant(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-10-01T10:00:00",  # no zone
        "2026-10-01T10:00:00.5Z",
        "2026-10-01T10:00:00.0000001Z",  # Python alone would truncate it
        "2026-10-01T24:00:00Z",
        "2026-10-01T10:00:60Z",  # a leap second
        "2026-13-01",
        "2027-02-29",  # not a leap year
        "2026-W40-4",  # ten characters, but not a date
        "20261001",
        "10/01/2026",
        "1759312800",
        "２０２６-10-01",
        "0001-01-01T00:00:00+23:00",  # before the first year in UTC
        "9999-12-31T23:59:59-23:00",
        "2026-10-01\x00",
        "=cmd()",
    ],
)
def test_other_texts_are_not_a_time(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_instant(text)


def test_an_error_quotes_at_most_a_line() -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_instant("9" * 1_000_000)
    assert len(refused.value.message()) < 500


def test_early_years_are_written_with_four_digits() -> None:
    assert format_instant(datetime(987, 6, 5, tzinfo=UTC)) == "0987-06-05T00:00:00Z"


def test_a_validity_without_an_end_is_unlimited() -> None:
    open_ended = Validity(at("10:00"))
    assert not open_ended.contains(at("09:59"))
    assert open_ended.contains(at("10:00"))
    assert open_ended.contains(datetime(2999, 1, 1, tzinfo=UTC))
    assert open_ended.edges() == (at("10:00"),)
    assert str(open_ended) == "2026-10-01T10:00:00Z to open"


def test_a_validity_excludes_its_end() -> None:
    validity = Validity(at("10:00"), at("11:00"))
    assert validity.contains(at("10:59"))
    assert not validity.contains(at("11:00"))
    assert validity.edges() == (at("10:00"), at("11:00"))


def test_validities_that_touch_do_not_overlap() -> None:
    first, second = Validity(at("10:00"), at("11:00")), Validity(at("11:00"))
    assert not first.overlaps(second)
    assert not second.overlaps(first)
    assert second.overlaps(Validity(at("12:00")))
    assert Validity(at("10:00"), at("11:01")).overlaps(second)


def test_an_open_validity_is_clipped_to_the_window() -> None:
    assert Validity(at("10:00")).clipped_to(between("09:00-12:00")) == between("10:00-12:00")
    assert Validity(at("12:00")).clipped_to(between("09:00-12:00")) is None
    assert Validity(at("08:00"), at("09:00")).clipped_to(between("09:00-12:00")) is None


def test_an_empty_validity_is_refused() -> None:
    with pytest.raises(InvalidValue):
        Validity(at("10:00"), at("10:00"))
