"""The billing period: a month in UTC, with leap years, time zones and boundaries.

Put here: the behaviour of `domain.billing_period`. Not here: whether a period is open or closed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from domain.billing_period import BillingPeriod
from domain.errors import InvalidValue
from domain.interval import Interval


@pytest.mark.parametrize(
    ("name", "day_count"),
    [
        ("2026-01", 31),
        ("2026-02", 28),
        ("2028-02", 29),
        ("2100-02", 28),  # divisible by 100
        ("2400-02", 29),  # and by 400
        ("2026-03", 31),  # daylight saving time begins in Europe, not in UTC
        ("2026-10", 31),
        ("2026-11", 30),
        ("2026-12", 31),
        ("2999-12", 31),
    ],
)
def test_a_month_has_its_days_of_24_hours(name: str, day_count: int) -> None:
    period = BillingPeriod(name)
    assert period.interval.seconds == day_count * 86_400
    hours = list(period.hours())
    assert len(hours) == len(set(hours)) == day_count * 24


def test_a_month_is_half_open() -> None:
    october = BillingPeriod("2026-10")
    assert october.interval.contains(datetime(2026, 10, 1, tzinfo=UTC))
    assert october.interval.contains(datetime(2026, 10, 31, 23, 59, 59, tzinfo=UTC))
    assert not october.interval.contains(datetime(2026, 11, 1, tzinfo=UTC))
    assert october.ended_at == BillingPeriod("2026-11").started_at


def test_the_last_second_of_december_belongs_to_december() -> None:
    last = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert BillingPeriod.containing(last) == BillingPeriod("2026-12")
    assert BillingPeriod.containing(last + timedelta(seconds=1)) == BillingPeriod("2027-01")


def test_the_period_of_a_local_time_is_the_one_in_utc() -> None:
    auckland = datetime(2026, 11, 1, 9, tzinfo=ZoneInfo("Pacific/Auckland"))
    assert BillingPeriod.containing(auckland) == BillingPeriod("2026-10")


def test_a_time_without_a_zone_has_no_period() -> None:
    with pytest.raises(InvalidValue):
        BillingPeriod.containing(datetime(2026, 10, 1))  # noqa: DTZ001 - that is the point


def test_next_and_previous_cross_the_year() -> None:
    assert BillingPeriod("2026-12").next() == BillingPeriod("2027-01")
    assert BillingPeriod("2027-01").previous() == BillingPeriod("2026-12")
    assert BillingPeriod("2026-03").previous() == BillingPeriod("2026-02")


def test_twelve_periods_are_a_year_without_gap_or_overlap() -> None:
    period, seconds = BillingPeriod("2028-01"), 0
    for _ in range(12):
        assert period.next().started_at == period.ended_at
        seconds += period.interval.seconds
        period = period.next()
    assert seconds == 366 * 86_400
    assert period == BillingPeriod("2029-01")


def test_periods_are_ordered_by_time_and_written_as_their_name() -> None:
    assert BillingPeriod("2026-09") < BillingPeriod("2026-10") < BillingPeriod("2027-01")
    assert str(BillingPeriod("2026-10")) == "2026-10"


def test_a_pod_over_the_edge_of_a_month_is_split_there() -> None:
    pod = Interval(
        datetime(2026, 10, 31, 23, 40, tzinfo=UTC), datetime(2026, 11, 1, 0, 10, tzinfo=UTC)
    )
    october, november = BillingPeriod("2026-10").interval, BillingPeriod("2026-11").interval
    in_october, in_november = pod.clipped_to(october), pod.clipped_to(november)
    assert in_october is not None
    assert in_november is not None
    assert (in_october.seconds, in_november.seconds) == (1200, 600)


@pytest.mark.parametrize(
    "name",
    ["", "2026-13", "2026-00", "2026-1", "1999-12", "3000-01", "2026-10 ", "2026-10\n", "26-10",
     "２０２６-10", "2026/10", "2026-10-01"],
)  # fmt: skip
def test_other_texts_are_not_a_month(name: str) -> None:
    with pytest.raises(InvalidValue):
        BillingPeriod(name)
