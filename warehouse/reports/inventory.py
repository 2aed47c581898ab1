"""The inventory at an instant: capacity, devices, since when, and the pods that hold them.

Put here: capacity per node and profile, and every card and MIG instance with its holder.
Not here: how devices are known (`dim_devices`), or how they are counted (`dbt/`).

The Kubernetes API says how many devices a pod holds; only telemetry says which ones. So a device's
holder is named where telemetry of that hour attributes it to a pod that ran at the instant, or a
claim gives it to one, and `holder_known_by` says so; elsewhere devices are rows with a number.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from domain.billing_period import BillingPeriod
from domain.interval import Interval, hour_of
from warehouse.reports.opened_facts import Facts, Row
from warehouse.sql_files import statement

CAPACITY_COLUMNS = (
    "cluster_name",
    "node_name",
    "gpu_class",
    "mig_profile",
    "device_capacity",
    "device_allocatable",
    "device_allocated",
    "holders",
)
DEVICE_COLUMNS = (
    "cluster_name",
    "node_name",
    "gpu_index",
    "instance_id",
    "device_uuid",
    "device_name",
    "gpu_class",
    "mig_profile",
    "device_count",
    "seen_since",
    "held_by",
    "holder_known_by",
    "how_known",
)

SECOND = timedelta(seconds=1)


def capacity(facts: Facts, at: datetime) -> list[Row]:
    """One row per node, class and profile: capacity, allocatable and allocated devices, and
    holders."""
    facts.require(Interval(at, at + SECOND))
    return facts.rows(statement(__file__, "capacity"), {"at": at, "hour": hour_of(at)})


def devices(facts: Facts, at: datetime) -> list[Row]:
    """One row per card or MIG instance that was there; with a number where they have no names."""
    period = BillingPeriod.containing(at).name
    facts.require(Interval(at, at + SECOND))
    return facts.rows(
        statement(__file__, "devices"), {"at": at, "hour": hour_of(at), "period": period}
    )


def last_counted_hour(facts: Facts) -> datetime | None:
    """The start of the newest hour that any node was counted for."""
    [row] = facts.rows(statement(__file__, "last_counted_hour"))
    newest = row["newest"]
    return newest if isinstance(newest, datetime) else None
