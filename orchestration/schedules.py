"""Schedules: the hour that is over, second looks, the night, and the end of the month.

Put here: when what is asked for, and why not when it is not.
Not here: hours that a schedule missed (`sensors` pulls all due hours).
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from domain.billing_period import BillingPeriod
from orchestration import ledger, standing
from orchestration.jobs import Asked, close_period, reconcile_hours, send_alerts
from orchestration.proposals import CLEAN, in_words, over, stands_against
from orchestration.resources import GivenHome
from orchestration.sensors import LIVE_PRIORITY, OLD_PRIORITY
from orchestration.tags import PERIOD, PRIORITY, REQUESTED_BY

HOURLY = "12 * * * *"
"""An hour's last samples are there after two rounds of the senders: eleven minutes."""

SECOND_LOOKS = "32 * * * *"
NIGHTLY = "30 2 * * *"
DRAFTS = "0 5 * * *"
CLOSES = "0 6 * * *"
ALERTS = "*/10 * * * *"
RUNNING = dg.DefaultScheduleStatus.RUNNING


def hour_schedules() -> list[dg.ScheduleDefinition]:
    return [
        _asks(
            "hourly_pull", HOURLY, Asked.LIVE_HOUR, LIVE_PRIORITY, "Asks for the hour just over."
        ),
        _asks(
            "second_looks",
            SECOND_LOOKS,
            Asked.SECOND_LOOKS,
            OLD_PRIORITY,
            "Asks again 3 and 26 hours later, when late samples may have arrived.",
        ),
    ]


def _asks(
    name: str, cron: str, asked: Asked, priority: str, description: str
) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=name,
        job=reconcile_hours,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=RUNNING,
        description=description,
        run_config={"ops": {"pull_due": {"config": {"asked": asked.name}}}},
        tags={REQUESTED_BY: name, PRIORITY: priority},
    )


def period_schedules(jobs: Mapping[str, Any]) -> list[Any]:
    """The night's check, and the month: drafts for everybody, closes where it is set."""

    @dg.schedule(
        name="nightly_check",
        cron_schedule=NIGHTLY,
        job=jobs["check_period"],
        execution_timezone="UTC",
        default_status=RUNNING,
        description="Checks every open period again, whether or not anything has changed.",
    )
    def nightly_check(
        context: dg.ScheduleEvaluationContext, ledger_home: GivenHome
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        opened = ledger_home.open()
        periods = [p for p in ledger.open_periods(opened) if standing.built(opened.home, p)]
        for period in periods:
            yield _of_period(period, "nightly_check")
        if not periods:
            yield dg.SkipReason("No open period has facts.")

    @dg.schedule(
        name="month_drafts",
        cron_schedule=DRAFTS,
        job=jobs["draft_period"],
        execution_timezone="UTC",
        default_status=RUNNING,
        description="After the grace time, drafts all invoices of a month and checks them.",
    )
    def month_drafts(
        context: dg.ScheduleEvaluationContext, ledger_home: GivenHome
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        opened = ledger_home.open()
        periods = over(opened)
        for period in periods:
            yield _of_period(period, "month_drafts")
        if not periods:
            yield dg.SkipReason("No open period is past its grace time.")

    @dg.schedule(
        name="month_close",
        cron_schedule=CLOSES,
        job=close_period,
        execution_timezone="UTC",
        default_status=RUNNING,
        description="Closes a clean month, where the setting close_on_schedule says so.",
    )
    def month_close(
        context: dg.ScheduleEvaluationContext, ledger_home: GivenHome
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        opened = ledger_home.open()
        # The oldest alone: the next month rests on its record.
        oldest = over(opened)[:1]
        clean = [period for period in oldest if stands_against(opened, period) == CLEAN]
        if not clean or not opened.settings.close_on_schedule:
            yield dg.SkipReason(in_words(opened))
            return
        checked = standing.checked(opened.home, clean[0])
        facts = checked.facts_sha256 if checked else ""
        config = {"period": clean[0].name, "issue": True, "facts_sha256": facts}
        yield dg.RunRequest(
            run_config={"ops": {"close_one_period": {"config": config}}},
            tags={PERIOD: clean[0].name, REQUESTED_BY: "month_close"},
        )

    @dg.schedule(
        name="alerts",
        cron_schedule=ALERTS,
        job=send_alerts,
        execution_timezone="UTC",
        default_status=RUNNING,
        description="Sends budget steps and alerts, where the setting [alerts] send is true.",
    )
    def alerts(
        context: dg.ScheduleEvaluationContext, ledger_home: GivenHome
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        if ledger_home.open().settings.alerts.send:
            yield dg.RunRequest(tags={REQUESTED_BY: "alerts"})
        else:
            yield dg.SkipReason("[alerts] send is not true in config.toml.")

    return [nightly_check, month_drafts, month_close, alerts]


def _of_period(period: BillingPeriod, requested_by: str) -> dg.RunRequest:
    return dg.RunRequest(
        partition_key=period.name, tags={PERIOD: period.name, REQUESTED_BY: requested_by}
    )
