"""Run tags: of which period a run is, who asked for it, and where it was started.

Put here: their names, and putting them on a run that came without.
Not here: which runs there are (`orchestration.jobs`, `sensors`, `schedules`).
"""

from __future__ import annotations

from datetime import datetime

import dagster as dg

from domain.billing_period import BillingPeriod

PERIOD = "period"
REQUESTED_BY = "requested_by"
STARTED_IN = "started_in"
"""By what mark of a home's `dagster/` folder it was launched: its process goes down with that."""

PRIORITY = "dagster/priority"
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
A_PERSON = "a person"
"""Dagster does not know who pressed a button in its pages."""


def tag_run(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, about: datetime | BillingPeriod
) -> None:
    """Give the run the tags that whoever launched it left out."""
    period = about if isinstance(about, BillingPeriod) else BillingPeriod.containing(about)
    present = context.run.tags
    asked = present.get("dagster/schedule_name") or present.get("dagster/sensor_name") or A_PERSON
    missing = {
        name: value
        for name, value in ((PERIOD, period.name), (REQUESTED_BY, asked))
        if name not in present
    }
    if missing:
        context.instance.add_run_tags(context.run_id, missing)
