"""The jobs in plain words: pull, reconcile, refresh, judge, draft, close.

Put here: what each job is launched with, and the steps it calls.
Not here: the steps themselves (`orchestration.steps`), or when jobs run (`schedules`, `sensors`).

Asking for hours by name, and closing, are ops with a described configuration; everything that is
made per period is an asset job, whose partition is the period.
"""

# No `from __future__ import annotations` here: Dagster reads the types of an op's parameters.
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.errors import LedgerError
from domain.interval import Interval
from ingestion.hours import Debt, Why
from orchestration import ledger, reconcile, steps
from orchestration.assets.documents import (
    DRAFTS,
    INVOICES,
    REPORTS,
    close_metadata,
)
from orchestration.assets.evidence import fail_where_not_whole, report
from orchestration.assets.facts import POOL
from orchestration.assets.hour_events import evidence_keys
from orchestration.assets.judged import JUDGEMENT, PUBLISHED
from orchestration.open_home import OpenHome
from orchestration.partitions import hour_of_name
from orchestration.resources import GivenHome, failing_in_words
from orchestration.snapshots import snapshot
from orchestration.tags import tag_run

if TYPE_CHECKING:
    from ingestion.manifest import Attempt

DEBTS_LIMIT = 50
"""A run that asks longer keeps the next live hour waiting; what is left is owed as before."""


class Asked(Enum):
    """Which of the debts are paid."""

    EVERYTHING = "everything"
    LIVE_HOUR = "live_hour"
    SECOND_LOOKS = "second_looks"


class PullHours(dg.Config):
    """Which hours to ask for, and whom."""

    from_hour: str = Field(description="The first hour, in UTC, such as 2026-10-01T00.")
    until_hour: str = Field(description="The hour after the last one, such as 2026-10-02T00.")
    clusters: list[str] = Field(default=[], description="Only these cluster IDs; all when empty.")
    sources: list[str] = Field(
        default=[], description="Only these witnesses, thanos or kubernetes; both when empty."
    )
    again: bool = Field(
        default=False, description="Ask also for hours that were answered whole before."
    )

    @property
    def window(self) -> Interval:
        return Interval(hour_of_name(self.from_hour), hour_of_name(self.until_hour))

    def asks_for(self, debt: Debt) -> bool:
        return (
            self.window.overlaps(debt.window)
            and (not self.clusters or debt.cluster_id in self.clusters)
            and (not self.sources or debt.source.value in self.sources)
        )


@dg.op(description="Ask for hours by name, and land what is said.")
def pull_these_hours(
    context: dg.OpExecutionContext, config: PullHours, ledger_home: GivenHome
) -> None:
    errors: list[LedgerError] = []
    with failing_in_words():
        opened = ledger_home.open()
        tag_run(context, config.window.started_at)
        attempts = steps.pull(
            opened,
            config.window,
            clusters=config.clusters,
            sources=[Source(source) for source in config.sources],
            only_debts=not config.again,
            errors=errors,
        )
    _show(context, opened, attempts, errors)


@dg.job(description="Ask the witnesses for hours by name, and land what they say.")
def pull_hours() -> None:
    pull_these_hours()


class ReconcileHours(dg.Config):
    """Which of the hours that are owed to ask for."""

    asked: Asked = Field(
        default=Asked.EVERYTHING,
        description="Everything that is owed; or only the newest hour of each witness; or only "
        "the second looks after 3 and 26 hours.",
    )
    at_most: int = Field(
        default=DEBTS_LIMIT, description="How many askings, of up to a day each, in this run."
    )


@dg.op(description="Ask for what the hour ledger owes: the live hour first, then the oldest.")
def pay_debts(
    context: dg.OpExecutionContext, config: ReconcileHours, ledger_home: GivenHome
) -> None:
    errors: list[LedgerError] = []
    with failing_in_words():
        opened = ledger_home.open()
        tag_run(context, opened.clock.now())
        todo = chosen(ledger.owed(opened), config.asked)
        for debt in todo[config.at_most :]:
            context.log.info(f"left for the next run: {debt.cluster_id} {debt.window}")
        attempts = reconcile.pay(opened, todo[: config.at_most], errors=errors)
    _show(context, opened, attempts, errors)


@dg.job(description="Compare what the calendar expects with what landed, and ask for the rest.")
def reconcile_hours() -> None:
    pay_debts()


def chosen(todo: Sequence[Debt], asked: Asked) -> list[Debt]:
    """The debts that a run was asked to pay, in their order."""
    return [
        debt
        for debt in todo
        if asked is Asked.EVERYTHING
        or (asked is Asked.LIVE_HOUR and debt.is_live)
        or (asked is Asked.SECOND_LOOKS and debt.why is Why.LATE_DATA)
    ]


def _show(
    context: dg.OpExecutionContext,
    opened: OpenHome,
    attempts: "Sequence[Attempt]",
    errors: "Sequence[LedgerError]",
) -> None:
    """What was answered is shown of every cluster, also when one of them failed."""
    keys = evidence_keys(opened.decisions.clusters)
    context.log.info(f"{len(attempts)} askings")
    told = report(context, opened, keys, attempts)
    for error in errors[1:]:
        context.log.error(error.message())
    with failing_in_words():
        if errors:
            raise errors[0]
    fail_where_not_whole(told)


class ClosePeriod(dg.Config):
    """Which period, and whether to really close it."""

    period: str = Field(description="The billing period, such as 2026-10.")
    issue: bool = Field(
        default=False,
        description="False: show what closing would issue, and what stands against it. True: "
        "close it, which cannot be undone, only corrected in a later period.",
    )
    facts_sha256: str = Field(
        default="",
        description="With issue: the hash of the facts that the dry run showed. Other facts are "
        "not closed.",
    )


@dg.op(
    pool=POOL,
    description="Judge a period again and close it; a dry run unless told to issue. Before "
    "issuing, the sample stores are asked once more whether anything arrived late.",
)
def close_one_period(
    context: dg.OpExecutionContext, config: ClosePeriod, ledger_home: GivenHome
) -> None:
    with failing_in_words():
        period = BillingPeriod(config.period)
        tag_run(context, period)
        opened = ledger_home.open()
        if config.issue:
            _count_again(context, opened, period)
        result = steps.close(
            opened,
            period,
            dry_run=not config.issue,
            facts_sha256=config.facts_sha256 if config.issue else None,
        )
        if result.closed:
            snapshot(opened)
    metadata = close_metadata(opened, period, result)
    if not result.closed:
        context.log_event(dg.AssetObservation(DRAFTS, partition=period.name, metadata=metadata))
        context.log.info("A dry run: nothing was issued. What it said is on invoice_drafts.")
        return
    documents = {"folder": dg.MetadataValue.path(str(opened.home.documents / period.name))}
    for key in (INVOICES, REPORTS):
        context.log_event(
            dg.AssetMaterialization(key, partition=period.name, metadata={**metadata, **documents})
        )
    for document in result.invoices:
        context.log.info(f"{document.number} {document.tenant} {document.sha256}")


def _count_again(context: dg.OpExecutionContext, opened: OpenHome, period: BillingPeriod) -> None:
    """As `gpu-ledger close` does: a store that does not answer stops no close."""
    found = steps.count_before_close(opened, period)
    for name, why in sorted(found.unanswered.items()):
        context.log.warning(f"Not counted: {name}: {why}")
    if found.differing_count:
        context.log.info(f"{found.differing_count} hours were asked again and counted in.")


@dg.job(description="Close a billing period: judge it again, issue its invoices. Dry by default.")
def close_period() -> None:
    close_one_period()


def asset_jobs() -> list[Any]:
    """The jobs whose partition is a billing period."""
    facts = dg.AssetSelection.groups("warehouse", "facts")
    return [
        dg.define_asset_job(
            "refresh_period",
            selection=facts,
            description="Rebuild one period's facts, whole, from evidence and decisions.",
        ),
        dg.define_asset_job(
            "judge_period",
            selection=dg.AssetSelection.assets(JUDGEMENT, PUBLISHED),
            description="Judge one period's facts: what stands against it? Copy them for readers.",
        ),
        dg.define_asset_job(
            "draft_period",
            selection=facts | dg.AssetSelection.assets(JUDGEMENT, PUBLISHED, DRAFTS),
            description="Rebuild, judge, and draft the invoices of one period; issue nothing.",
        ),
    ]


JOBS = (pull_hours, reconcile_hours, close_period)
