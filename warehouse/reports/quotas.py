"""Quotas beside used and allocated devices.

Put here: the rows of an hour or of a month.
Not here: how quotas are observed (`ingestion.kubernetes`), or counted (`fct_quotas`).
"""

from __future__ import annotations

from datetime import datetime

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval
from warehouse.reports.opened_facts import Facts, Row
from warehouse.sql_files import statement

COLUMNS = (
    "tenant",
    "cluster_name",
    "resource",
    "hard_count",
    "used_count",
    "allocated_count_max",
    "free_count",
)
MONTH_COLUMNS = ("tenant", "cluster_name", "resource", "hour_started_at", *COLUMNS[3:])


def quotas_of_hour(facts: Facts, at: datetime, tenant: str = "") -> list[Row]:
    """One row per tenant, cluster and resource that has a quota in the hour that begins then."""
    return _rows(facts, Interval(at, at + HOUR), tenant)


def quotas_of_month(facts: Facts, period: BillingPeriod, tenant: str = "") -> list[Row]:
    """The same for every hour of a month."""
    return _rows(facts, period.interval, tenant)


def _rows(facts: Facts, window: Interval, tenant: str) -> list[Row]:
    facts.require(window)
    parameters = {"started": window.started_at, "ended": window.ended_at, "tenant": tenant}
    return facts.rows(statement(__file__, "quotas"), parameters)


def last_hour_of_quotas(facts: Facts) -> datetime | None:
    """The start of the newest hour in which any quota was seen."""
    [row] = facts.rows(statement(__file__, "last_hour_of_quotas"))
    newest = row["newest"]
    return newest if isinstance(newest, datetime) else None
