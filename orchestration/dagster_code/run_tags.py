"""Run tags: the period of a run, its requester, and the home in which it was started.

Put here: their names, and adding them to a run.
Not here: the runs themselves (`jobs`, `sensors`, `schedules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import dagster as dg

from domain.billing_period import BillingPeriod

PERIOD = "period"
REQUESTED_BY = "requested_by"
STARTED_IN = "started_in"
"""The mark of the home's `dagster/` folder from which the run was launched. The process of
the run ends when the `gpu-ledger up` of that folder ends."""

PRIORITY = "dagster/priority"
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
MANUAL = "manual"
"""The requester of a run that was launched in the web UI: Dagster does not record the user."""


class HomeTaggingLauncher(dg.DefaultRunLauncher):
    """The launcher that `dagster.yaml` names: it adds the mark of a home to each run.

    Several homes may share one database. The mark is added before the run starts, so that a run
    that fails at once has it too.
    """

    def __init__(self, mark: str, inst_data: Any = None) -> None:
        self._mark = mark
        super().__init__(inst_data)

    @classmethod
    def config_type(cls) -> Any:
        return {"mark": str}

    @classmethod
    def from_config_value(
        cls, inst_data: Any, config_value: Mapping[str, Any]
    ) -> HomeTaggingLauncher:
        return cls(config_value["mark"], inst_data)

    def launch_run(self, context: Any) -> None:
        self._instance.add_run_tags(context.dagster_run.run_id, {STARTED_IN: self._mark})
        super().launch_run(context)


def tag_run(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, about: datetime | BillingPeriod
) -> None:
    """Add the tags for period and requester to a run that was launched without them."""
    period = about if isinstance(about, BillingPeriod) else BillingPeriod.containing(about)
    present = context.run.tags
    requester = present.get("dagster/schedule_name") or present.get("dagster/sensor_name") or MANUAL
    missing = {
        name: value
        for name, value in ((PERIOD, period.name), (REQUESTED_BY, requester))
        if name not in present
    }
    if missing:
        context.instance.add_run_tags(context.run_id, missing)
