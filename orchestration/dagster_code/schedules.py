"""Schedules: the newest hour, late data, the nightly check, and the end of the period.

Put here: the times at which each job runs, and the reason for a skipped run.
Not here: hours that a schedule missed (`sensors` pulls all due hours).
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from orchestration import open_hours, period_state
from orchestration.dagster_code.jobs import DueHours, close_period, pull_due_hours, send_alerts
from orchestration.dagster_code.resources import HomeParameter
from orchestration.dagster_code.run_tags import PERIOD, PRIORITY, REQUESTED_BY
from orchestration.dagster_code.sensors import LIVE_PRIORITY, OLD_PRIORITY, period_request
from orchestration.period_state import READY_TO_CLOSE

HOURLY = "12 * * * *"
"""The last samples of an hour arrive within two rounds of remote write: eleven minutes."""

LATE_DATA = "32 * * * *"
NIGHTLY = "30 2 * * *"
DRAFTS = "0 5 * * *"
CLOSES = "0 6 * * *"
ALERTS = "*/10 * * * *"
RUNNING = dg.DefaultScheduleStatus.RUNNING


def hour_schedules() -> list[dg.ScheduleDefinition]:
    return [
        _pull_schedule(
            "hourly_pull", HOURLY, DueHours.LIVE, LIVE_PRIORITY, "Pulls the newest ended hour."
        ),
        _pull_schedule(
            "late_data_pull",
            LATE_DATA,
            DueHours.LATE_DATA,
            OLD_PRIORITY,
            "Queries hours again after 3 and 26 hours, when late samples may have arrived.",
        ),
    ]


def _pull_schedule(
    name: str, cron: str, hours: DueHours, priority: str, description: str
) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=name,
        job=pull_due_hours,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=RUNNING,
        description=description,
        run_config={"ops": {"pull_due": {"config": {"hours": hours.name}}}},
        tags={REQUESTED_BY: name, PRIORITY: priority},
    )


def period_schedules(jobs: Mapping[str, Any]) -> list[Any]:
    """The schedules of the nightly check, the drafts, the close and the alerts."""

    @dg.schedule(
        name="nightly_check",
        cron_schedule=NIGHTLY,
        job=jobs["check_period"],
        execution_timezone="UTC",
        default_status=RUNNING,
        description="Checks every open period again, whether or not it has changed.",
    )
    def nightly_check(
        context: dg.ScheduleEvaluationContext, ledger_home: HomeParameter
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        opened = ledger_home.open()
        periods = [
            period
            for period in open_hours.open_periods(opened)
            if period_state.built_state(opened.home, period)
        ]
        for period in periods:
            yield period_request(period, "nightly_check")
        if not periods:
            yield dg.SkipReason("No open period has facts.")

    @dg.schedule(
        name="period_drafts",
        cron_schedule=DRAFTS,
        job=jobs["draft_period"],
        execution_timezone="UTC",
        default_status=RUNNING,
        description="Checks each open period daily after its grace time for late evidence (the "
        "policy grace_days), and drafts its invoices.",
    )
    def period_drafts(
        context: dg.ScheduleEvaluationContext, ledger_home: HomeParameter
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        opened = ledger_home.open()
        periods = period_state.closable_periods(opened)
        for period in periods:
            yield period_request(period, "period_drafts")
        if not periods:
            yield dg.SkipReason("No open period is past its grace time.")

    @dg.schedule(
        name="period_close",
        cron_schedule=CLOSES,
        job=close_period,
        execution_timezone="UTC",
        default_status=RUNNING,
        description="Closes the oldest open period if nothing blocks it and close_on_schedule "
        "is true in config.toml.",
    )
    def period_close(
        context: dg.ScheduleEvaluationContext, ledger_home: HomeParameter
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        opened = ledger_home.open()
        # Only the oldest: periods are closed in order.
        oldest = period_state.closable_periods(opened)[:1]
        ready = [p for p in oldest if period_state.close_obstacles(opened, p) == READY_TO_CLOSE]
        if not ready or not opened.settings.close_on_schedule:
            yield dg.SkipReason(period_state.close_proposal(opened))
            return
        checked = period_state.checked_state(opened.home, ready[0])
        facts = checked.facts_sha256 if checked else ""
        config = {"period": ready[0].name, "issue": True, "facts_sha256": facts}
        yield dg.RunRequest(
            run_config={"ops": {"close_one_period": {"config": config}}},
            tags={PERIOD: ready[0].name, REQUESTED_BY: "period_close"},
        )

    @dg.schedule(
        name="alerts",
        cron_schedule=ALERTS,
        job=send_alerts,
        execution_timezone="UTC",
        default_status=RUNNING,
        description="Sends budget alerts and alerts about the ledger, if [alerts] send is true.",
    )
    def alerts(
        context: dg.ScheduleEvaluationContext, ledger_home: HomeParameter
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        if ledger_home.open().settings.alerts.send:
            yield dg.RunRequest(tags={REQUESTED_BY: "alerts"})
        else:
            yield dg.SkipReason("[alerts] send is not true in config.toml.")

    return [nightly_check, period_drafts, period_close, alerts]
