"""Dagster's jobs: pull, refresh, check, draft, close.

Put here: the configuration of each job, and the steps that it calls.
Not here: the steps themselves (`orchestration.steps`), or when jobs run (`schedules`, `sensors`).

Pulling and closing are ops with a configuration; steps for a period are asset jobs, whose partition
is the period.
"""

# No `from __future__ import annotations` here: Dagster reads the types of an op's parameters.
from collections.abc import Sequence
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.errors import LedgerError
from domain.interval import Interval
from ingestion.evidence.hour_ledger import DueReason, DueWindow
from orchestration import open_hours, steps
from orchestration.alerting import send
from orchestration.dagster_code.check_assets import CHECK_RESULT, PUBLISHED
from orchestration.dagster_code.document_assets import DRAFTS, INVOICES, REPORTS, close_metadata
from orchestration.dagster_code.evidence_assets import fail_if_incomplete, report_hours
from orchestration.dagster_code.hour_events import evidence_keys
from orchestration.dagster_code.model_assets import POOL
from orchestration.dagster_code.partitions import hour_of_name
from orchestration.dagster_code.resources import HomeParameter, report_errors
from orchestration.dagster_code.run_tags import tag_run
from orchestration.open_home import OpenHome
from orchestration.publishing import snapshot
from warehouse.manifest import Attempt

WINDOWS_LIMIT = 50
"""A longer run would delay the next live hour; the remaining windows stay due."""


class DueHours(Enum):
    """A choice of due hours."""

    ALL = "all"
    LIVE = "live"
    LATE_DATA = "late_data"


class PullHours(dg.Config):
    """The hours to query, and their clusters and sources."""

    from_hour: str = Field(description="The first hour, in UTC, such as 2026-10-01T00.")
    until_hour: str = Field(description="The hour after the last one, such as 2026-10-02T00.")
    clusters: list[str] = Field(default=[], description="Cluster IDs; empty: all clusters.")
    sources: list[str] = Field(default=[], description="Sources: thanos, kubernetes; empty: both.")
    all_hours: bool = Field(default=False, description="Also query hours that are complete.")

    @property
    def window(self) -> Interval:
        return Interval(hour_of_name(self.from_hour), hour_of_name(self.until_hour))

    def includes(self, due: DueWindow) -> bool:
        return (
            self.window.overlaps(due.window)
            and (not self.clusters or due.cluster_id in self.clusters)
            and (not self.sources or due.source.value in self.sources)
        )


@dg.op(description="Query the configured hours, and store the responses in the landing.")
def pull_configured_hours(
    context: dg.OpExecutionContext, config: PullHours, ledger_home: HomeParameter
) -> None:
    errors: list[LedgerError] = []
    with report_errors():
        opened = ledger_home.open()
        tag_run(context, config.window.started_at)
        attempts = steps.pull(
            opened,
            config.window,
            clusters=config.clusters,
            sources=[Source(source) for source in config.sources],
            only_due=not config.all_hours,
            errors=errors,
        )
    _report_attempts(context, opened, attempts, errors)


@dg.job(description="Query the sources for given hours, and store the responses in the landing.")
def pull_hours() -> None:
    pull_configured_hours()


class PullDueHours(dg.Config):
    """The due hours to query, and the limit of a run."""

    hours: DueHours = Field(
        default=DueHours.ALL,
        description="ALL: every due hour. LIVE: the newest hour of each source. LATE_DATA: hours "
        "to be queried again 3 and 26 hours after they ended.",
    )
    windows_limit: int = Field(
        default=WINDOWS_LIMIT,
        description="Maximum number of query windows, of at most 24 hours each.",
    )


@dg.op(
    description="Query due hours: first the newest hour of each source, then the others, "
    "the oldest first."
)
def pull_due(
    context: dg.OpExecutionContext, config: PullDueHours, ledger_home: HomeParameter
) -> None:
    errors: list[LedgerError] = []
    with report_errors():
        opened = ledger_home.open()
        tag_run(context, opened.clock.now())
        due_windows = choose_windows(
            open_hours.due_windows(opened, open_hours.open_entries(opened)), config.hours
        )
        for due in due_windows[config.windows_limit :]:
            context.log.info(f"left for the next run: {due.cluster_id} {due.window}")
        attempts = steps.pull_due_hours(opened, due_windows[: config.windows_limit], errors=errors)
    _report_attempts(context, opened, attempts, errors)


@dg.job(
    description="Query the due hours (expected hours without a complete response), and store the "
    "responses in the landing."
)
def pull_due_hours() -> None:
    pull_due()


def choose_windows(due_windows: Sequence[DueWindow], hours: DueHours) -> list[DueWindow]:
    """The windows that a run queries, in their order."""
    return [
        due
        for due in due_windows
        if hours is DueHours.ALL
        or (hours is DueHours.LIVE and due.is_live)
        or (hours is DueHours.LATE_DATA and due.why is DueReason.LATE_DATA)
    ]


def _report_attempts(
    context: dg.OpExecutionContext,
    opened: OpenHome,
    attempts: Sequence[Attempt],
    errors: Sequence[LedgerError],
) -> None:
    """Report the responses of every cluster, even if one of them failed."""
    keys = evidence_keys(opened.decisions.clusters)
    context.log.info(f"{len(attempts)} attempts")
    incomplete = report_hours(context, opened, keys, attempts)
    for error in errors[1:]:
        context.log.error(error.message())
    with report_errors():
        if errors:
            raise errors[0]
    fail_if_incomplete(incomplete)


class ClosePeriod(dg.Config):
    """The period, and whether to issue its documents."""

    period: str = Field(description="The billing period, such as 2026-10.")
    issue: bool = Field(
        default=False,
        description="False: print the documents that a close would issue, and blocking findings. "
        "True: issue the invoices; corrections are billed in a later period.",
    )
    facts_sha256: str = Field(
        default="",
        description="With issue: the hash of the facts that the dry run showed. The close "
        "fails if the facts have changed.",
    )


@dg.op(
    pool=POOL,
    description="Check a period again and close it; a dry run unless `issue` is set. Before "
    "issuing, sample counts are compared with the stores, to find samples that arrived late.",
)
def close_one_period(
    context: dg.OpExecutionContext, config: ClosePeriod, ledger_home: HomeParameter
) -> None:
    with report_errors():
        period = BillingPeriod(config.period)
        tag_run(context, period)
        opened = ledger_home.open()
        if config.issue:
            _recheck(context, opened, period)
        result = steps.close(
            opened,
            period,
            dry_run=not config.issue,
            facts_sha256=config.facts_sha256 if config.issue else None,
        )
    metadata = close_metadata(opened, period, result)
    if not result.closed:
        context.log_event(dg.AssetObservation(DRAFTS, partition=period.name, metadata=metadata))
        context.log.info(
            "A dry run: nothing was issued. The result is in the metadata of invoice_drafts."
        )
        return
    documents = {"folder": dg.MetadataValue.path(str(opened.home.documents / period.name))}
    for key in (INVOICES, REPORTS):
        context.log_event(
            dg.AssetMaterialization(key, partition=period.name, metadata={**metadata, **documents})
        )
    for document in result.invoices:
        context.log.info(f"{document.number} {document.tenant} {document.sha256}")
    with report_errors():
        snapshot(opened)


def _recheck(context: dg.OpExecutionContext, opened: OpenHome, period: BillingPeriod) -> None:
    """Compare sample counts with the stores; the close does not need a response of each store."""
    result = steps.recheck_before_close(opened, period)
    for name, why in sorted(result.unanswered.items()):
        context.log.warning(f"Not compared: {name}: {why}")
    if result.differing_count:
        context.log.info(f"{result.differing_count} hours differed and were pulled again.")


@dg.job(
    description="Close a billing period: check it again, issue its invoices. A dry run by default."
)
def close_period() -> None:
    close_one_period()


@dg.op(
    pool=POOL,
    description="Post budget alerts and alerts about the ledger to all Alertmanagers.",
)
def send_due_alerts(context: dg.OpExecutionContext, ledger_home: HomeParameter) -> None:
    with report_errors():
        opened = ledger_home.open()
        result = send(opened)
        for problem in result.problems:
            context.log.error(problem.message())
        if result.delivered or result.rearmed:
            snapshot(opened)
    context.log.info(
        f"{len(result.posted)} budget steps posted, {len(result.delivered)} delivered; "
        f"{result.other_alert_count} other alerts posted"
    )


@dg.job(description="Send budget alerts and alerts about the ledger, if [alerts] send is true.")
def send_alerts() -> None:
    send_due_alerts()


def asset_jobs() -> list[Any]:
    """The jobs whose partition is a billing period."""
    facts = dg.AssetSelection.groups("warehouse", "facts")
    return [
        dg.define_asset_job(
            "refresh_period",
            selection=facts,
            description="Rebuild one period's facts from evidence and decisions.",
        ),
        dg.define_asset_job(
            "check_period",
            selection=dg.AssetSelection.assets(CHECK_RESULT, PUBLISHED),
            description="Check one period's facts, list findings, and copy the facts for readers.",
        ),
        dg.define_asset_job(
            "draft_period",
            selection=facts | dg.AssetSelection.assets(CHECK_RESULT, PUBLISHED, DRAFTS),
            description="Rebuild, check, and draft the invoices of one period; issue nothing.",
        ),
    ]


JOBS = (pull_hours, pull_due_hours, close_period, send_alerts)
