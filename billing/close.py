"""Closing a period: checked again, sealed, numbered and recorded in one event, or refused.

Put here: the order of the steps, and the reasons to refuse.
Not here: what the documents are (`plan`), how they are written (`commits`) or rendered (`render`).

What is sealed is read from the very facts that were checked, which their hash shows. Checking may
take long, so it comes before the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from billing.books import Books
from billing.commits import commit_close, plan_from
from billing.events import Event, Ledger
from billing.gate import require_billable
from billing.grounds import FactsChangedSinceCheck, FactsReader, read_grounds
from billing.guard import require_writable
from billing.mirror import read_estimates, write_estimates
from billing.plan import Plan
from billing.record import Record
from billing.render import (
    Progress,
    issued_documents,
    make_folders,
    render_ahead,
    render_documents,
)
from billing.rendering import MODEL_PAGES, month_files, verifier_file
from billing.retention import require_held
from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.decisions import Decisions
from domain.errors import NotBillable
from domain.findings import CheckResult, Finding
from domain.interval import format_instant
from domain.money import Money, parse_nanos
from warehouse.home import Home

CheckPeriod = Callable[[], CheckResult]


class TooEarlyToClose(NotBillable):
    """The grace time in which late evidence still counts is not over."""

    code = "CLOSE-002"

    def __init__(self, period: BillingPeriod, now: datetime, closes_from: datetime) -> None:
        super().__init__(
            where=f"period {period}",
            seen=f"it is {format_instant(now.replace(microsecond=0))}, and the grace time ends at "
            f"{format_instant(closes_from)}",
            why="evidence that arrives until then still changes the amounts",
            remedy=f"`gpu-ledger close {period} --dry-run` shows every invoice as it stands now",
        )


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """One document of a close, as a table shows it."""

    number: str
    tenant: str
    billed_nanos: int
    sha256: str  # empty while it is only planned
    estimated_nanos: int | None = None  # what the dry run before this one came to


@dataclass(frozen=True, slots=True)
class CloseResult:
    """What a close issued, or what a dry run would issue and what stands against it."""

    period: BillingPeriod
    invoices: tuple[DocumentSummary, ...]
    total: Money | None  # None for consumption statements
    refused_by: tuple[Finding, ...]
    missing_checks: tuple[str, ...]
    closes_from: datetime  # when the grace time ends
    closed: bool
    facts_sha256: str  # of the facts that were checked, or sealed
    closed_by: str = ""  # the holder of the lease under which it was closed


def close_period(
    home: Home,
    period: BillingPeriod,
    decisions: Decisions,
    check_period: CheckPeriod,
    clock: Clock,
    *,
    dry_run: bool = True,
    holder: str = "gpu-ledger close",
    progress: Progress | None = None,
    model_pages: Callable[[], bytes] | None = None,
    facts_sha256: str | None = None,
    reader: FactsReader | None = None,
) -> CloseResult:
    """Close a period, or show what closing it would do. Closing a closed one changes nothing.

    With `facts_sha256`, the hash that a dry run showed, other facts are refused.
    With `model_pages` the month's bundle explains its columns. With `reader`, `check` has read the
    facts already.
    """
    record = Record(home.record_store())
    ledger = record.ledger()
    if period.name in ledger.closes():
        if not dry_run:
            render_documents(home, period, progress)
        return _as_recorded(record, ledger, period, decisions)
    if not dry_run:
        _require_grace_over(period, decisions, clock)
    books = Books(record, ledger)
    check_result, plan = _check_and_plan(
        home, period, decisions, check_period, books, clock, reader
    )
    if facts_sha256 not in (None, check_result.facts_sha256):
        raise FactsChangedSinceCheck(period, facts_sha256, check_result.facts_sha256)
    if dry_run:
        result = _as_planned(plan, check_result, decisions, period, read_estimates(home, period))
        write_estimates(home, period, _billed(result), clock.now())
        return result
    require_billable(check_result, str(plan.basis["currency"]))
    require_held(home.landing_store(), period, plan.basis["evidence"])
    require_writable(home, record, ledger)
    files = _files_of(books, period, plan, progress)
    if model_pages is not None:
        files[MODEL_PAGES] = model_pages()
    # Whatever can fail has to fail before the commit.
    make_folders(home, period, [draft.tenant for draft in plan.drafts])
    commit_close(books, period, plan, clock, holder, files)
    render_documents(home, period, ahead=files)
    return _as_recorded(record, record.ledger(), period, decisions)


def _files_of(
    books: Books, period: BillingPeriod, plan: Plan, progress: Progress | None
) -> dict[str, bytes]:
    """Every file that the close of a plan issues, before anything is written."""
    drafts = [draft.document for draft in plan.drafts]
    earlier = issued_documents(books.record, books.ledger.events, period.name)
    return {
        **render_ahead(drafts, progress),
        **month_files([*earlier, *drafts], plan.statement, plan.basis),
        **verifier_file(),
    }


def _check_and_plan(
    home: Home,
    period: BillingPeriod,
    decisions: Decisions,
    check_period: CheckPeriod,
    books: Books,
    clock: Clock,
    reader: FactsReader | None,
) -> tuple[CheckResult, Plan]:
    check_result = check_period()
    grounds = read_grounds(home, home.warehouse_path, period, decisions, check_result, reader)
    return check_result, plan_from(books, grounds, clock.now().replace(microsecond=0))


def closes_from(period: BillingPeriod, decisions: Decisions) -> datetime:
    """The end of the grace time, by the policy that held when the period ended."""
    last = period.ended_at - timedelta(seconds=1)
    return period.ended_at + timedelta(days=decisions.grace_days(last))


def _require_grace_over(period: BillingPeriod, decisions: Decisions, clock: Clock) -> None:
    if clock.now() < (until := closes_from(period, decisions)):
        raise TooEarlyToClose(period, clock.now(), until)


def _as_planned(
    plan: Plan,
    check_result: CheckResult,
    decisions: Decisions,
    period: BillingPeriod,
    estimates: Mapping[str, int],
) -> CloseResult:
    summaries = [
        DocumentSummary(d.number, d.tenant, d.billed_nanos, "", estimates.get(d.tenant))
        for d in plan.drafts
    ]
    currency = str(plan.basis["currency"])
    return CloseResult(
        period=period,
        invoices=tuple(summaries),
        total=Money(plan.billed_nanos, currency) if currency else None,
        refused_by=check_result.blocking,
        missing_checks=check_result.missing_checks,
        closes_from=closes_from(period, decisions),
        closed=False,
        facts_sha256=check_result.facts_sha256,
    )


def _billed(result: CloseResult) -> dict[str, int]:
    return {document.tenant: document.billed_nanos for document in result.invoices}


def _as_recorded(
    record: Record, ledger: Ledger, period: BillingPeriod, decisions: Decisions
) -> CloseResult:
    event = ledger.closes()[period.name]
    basis = record.sealed(str(event.body["basis_sha256"]))
    currency = str(basis["currency"])
    summaries = _summaries(record, event)
    total = sum(summary.billed_nanos for summary in summaries)
    return CloseResult(
        period=period,
        invoices=tuple(summaries),
        total=Money(total, currency) if currency else None,
        refused_by=(),
        missing_checks=(),
        closes_from=closes_from(period, decisions),
        closed=True,
        facts_sha256=str(basis["facts_sha256"]),
        closed_by=event.recorded_by,
    )


def _summaries(record: Record, event: Event) -> list[DocumentSummary]:
    summaries = []
    for issued in event.documents():
        document: dict[str, Any] = record.sealed(issued.sha256)
        billed = parse_nanos(document["total_billed_cost"])
        summaries.append(DocumentSummary(issued.number, document["tenant"], billed, issued.sha256))
    return summaries
