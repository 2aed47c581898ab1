"""Partitions: the hours of a cluster, and the billing periods.

Put here: the names of hours and periods in Dagster.
Not here: which hours are expected (the decisions) or complete (`orchestration.open_hours`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

import dagster as dg

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval, hour_of, parse_instant

HOUR_FORMAT = "%Y-%m-%dT%H"
PERIOD_FORMAT = "%Y-%m"


def hours_since(started_at: datetime, ended_at: datetime | None) -> dg.HourlyPartitionsDefinition:
    """One partition per hour in which a cluster is measured; named 2026-10-01T00, in UTC.

    An hour that is measured in part has a partition too.
    """
    # Dagster leaves out an hour that ends after the end date.
    end = hour_of(ended_at - timedelta(seconds=1)) + HOUR if ended_at else None
    return dg.HourlyPartitionsDefinition(
        start_date=hour_name(hour_of(started_at)),
        end_date=hour_name(end) if end else None,
        timezone="UTC",
        fmt=HOUR_FORMAT,
    )


def periods_since(started_at: datetime) -> dg.MonthlyPartitionsDefinition:
    """One partition per billing period, the open one included; named 2026-10."""
    return dg.MonthlyPartitionsDefinition(
        start_date=BillingPeriod.containing(started_at).name,
        timezone="UTC",
        fmt=PERIOD_FORMAT,
        end_offset=1,
    )


def hour_name(hour: datetime) -> str:
    return hour.strftime(HOUR_FORMAT)


def hour_of_name(name: str) -> datetime:
    return parse_instant(f"{name}:00:00Z")


def hours_argument(window: Interval) -> str:
    """The hours as A..B, as commands take them; hour B is not included."""
    return f"{hour_name(window.started_at)}..{hour_name(window.ended_at)}"


def window_of(context: dg.AssetExecutionContext) -> Interval:
    """The hours of a run: one partition, or a range of them."""
    window = context.partition_time_window
    return Interval(window.start, window.end)


def period_of(context: dg.AssetExecutionContext) -> BillingPeriod:
    return BillingPeriod(context.partition_key)
