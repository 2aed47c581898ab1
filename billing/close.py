"""Closing a period: check, plan, and one event that issues all documents; or a refusal.

Put here: the order of the steps, the reasons to refuse, and the event of a close.
Not here: the documents (`plan`), or their files (`documents_folder`).

The facts that are sealed are the checked facts: they are read on the connection of the check, or
their hash is compared. A check can take long, so it runs before the lease.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from billing.billed_facts import BilledFacts, FactsChangedSinceCheck, FactsReader, read_grounds
from billing.books import LedgerDocuments, correction_currencies
from billing.documents_folder import (
    Progress,
    issued_documents,
    make_folders,
    render_ahead,
    render_documents,
)
from billing.events import EventKind, Ledger, RecordEvent
from billing.gate import require_billable
from billing.guard import require_writable
from billing.landed_evidence import require_held
from billing.lines import Line
from billing.plan import ClosePlan, plan_close
from billing.record import Record
from billing.record_tables import read_estimates, write_estimates
from billing.rendering.document_files import ENCLOSED, MODEL_PAGES, month_files, verifier_file
from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.decisions import Decisions
from domain.errors import NotBillable
from domain.findings import CheckResult, Finding
from domain.interval import format_instant
from domain.money import CurrenciesDiffer, Money, parse_nanos
from warehouse.home import Home
from warehouse.lease import lease

CheckPeriod = Callable[[], CheckResult]


class TooEarlyToClose(NotBillable):
    """The grace time for late evidence is not over."""

    code = "CLOSE-002"

    def __init__(self, period: BillingPeriod, now: datetime, closes_from: datetime) -> None:
        super().__init__(
            where=f"period {period}",
            seen=f"it is {format_instant(now.replace(microsecond=0))}; the grace time ends at "
            f"{format_instant(closes_from)}",
            why="evidence that arrives until then still changes the amounts",
            remedy=f"`gpu-ledger close {period} --dry-run` shows the present estimate",
        )


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """One document of a close, as a table shows it."""

    number: str
    tenant: str
    billed_nanos: int
    sha256: str  # empty while it is only planned
    estimated_nanos: int | None = None  # of the dry run before this one


@dataclass(frozen=True, slots=True)
class CloseResult:
    """The documents of a close; of a dry run, the planned documents and the blocking findings."""

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
    """Close a period, or with `dry_run` show its documents. A closed period does not change.

    `facts_sha256`: the hash that a dry run showed; other facts are refused.
    `model_pages`: returns the page of the models for the bundle of the month.
    `reader`: has the facts that `check_period` read.
    """
    record = Record(home.record_store())
    ledger = record.ledger()
    if period.name in ledger.closes():
        if not dry_run:
            render_documents(home, period, progress)
        return _as_recorded(record, ledger, period, decisions)
    if not dry_run:
        _require_grace_over(period, decisions, clock)
    books = LedgerDocuments(record, ledger)
    check_result = check_period()
    grounds = read_grounds(home, home.warehouse_path, period, decisions, check_result, reader)
    plan = plan_from(books, grounds, clock.now().replace(microsecond=0))
    if facts_sha256 is not None and facts_sha256 != check_result.facts_sha256:
        raise FactsChangedSinceCheck(period, facts_sha256, check_result.facts_sha256)
    if dry_run:
        result = _as_planned(plan, check_result, decisions, period, read_estimates(home, period))
        billed = {document.tenant: document.billed_nanos for document in result.invoices}
        write_estimates(home, period, billed, clock.now())
        return result
    require_billable(check_result, str(plan.basis["currency"]))
    require_held(home.landing_store(), period, plan.basis["evidence"])
    require_writable(home, record, ledger)
    files = _files_of(books, period, plan, progress)
    if model_pages is not None:
        files[MODEL_PAGES] = model_pages()
    # All steps that can fail come before the commit.
    make_folders(home, period, [draft.tenant for draft in plan.drafts])
    commit_close(books, period, plan, clock, holder, files)
    render_documents(home, period, ahead=files)
    return _as_recorded(record, record.ledger(), period, decisions)


def _files_of(
    books: LedgerDocuments, period: BillingPeriod, plan: ClosePlan, progress: Progress | None
) -> dict[str, bytes]:
    """Every file that the close of a plan issues."""
    drafts = [draft.document for draft in plan.drafts]
    earlier = issued_documents(books.record, books.ledger.events, period.name)
    return {
        **render_ahead(drafts, progress),
        **month_files([*earlier, *drafts], plan.statement, plan.basis),
        **verifier_file(),
    }


def closes_from(period: BillingPeriod, decisions: Decisions) -> datetime:
    """The end of the grace time, by the policy at the end of the period."""
    last = period.ended_at - timedelta(seconds=1)
    return period.ended_at + timedelta(days=decisions.grace_days(last))


def _require_grace_over(period: BillingPeriod, decisions: Decisions, clock: Clock) -> None:
    if clock.now() < (until := closes_from(period, decisions)):
        raise TooEarlyToClose(period, clock.now(), until)


def _as_planned(
    plan: ClosePlan,
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


def _summaries(record: Record, event: RecordEvent) -> list[DocumentSummary]:
    summaries = []
    for issued in event.documents():
        document: dict[str, Any] = record.sealed(issued.sha256)
        billed = parse_nanos(document["total_billed_cost"])
        summaries.append(DocumentSummary(issued.number, document["tenant"], billed, issued.sha256))
    return summaries


# The commit ---------------------------------------------------------------------------------------


def plan_from(books: LedgerDocuments, grounds: BilledFacts, issued_at: datetime) -> ClosePlan:
    """The documents of a close: usage, and the corrections without an invoice."""
    basis, period = grounds.basis, grounds.basis.period
    pending = books.ledger.pending_before(period.name)
    for currency in correction_currencies(books.record, pending) - {basis.currency}:
        raise CurrenciesDiffer(currency, basis.currency, f"corrections on documents of {period}")
    corrections: defaultdict[str, list[Line]] = defaultdict(list)
    for line in books.pending_lines(pending):
        corrections[line.key.tenant].append(line)
    numbers = [document.number for document in books.ledger.documents()]
    return plan_close(grounds, corrections, numbers, issued_at)


def commit_close(
    books: LedgerDocuments,
    period: BillingPeriod,
    plan: ClosePlan,
    clock: Clock,
    holder: str,
    files: Mapping[str, bytes],
) -> None:
    """Issue every document of a plan in one event; nothing if the period was closed meanwhile.

    Before the event nothing is issued and no number is taken; a killed command leaves at most
    sealed documents without an event. `files`: every issued file, by its name in a bundle.
    """
    require_billable(plan.check_result, str(plan.basis["currency"]))
    record = books.record
    # An event after the plan moves the head, and the numbers of the plan are not used.
    with lease(record.store, holder, clock, above=books.ledger.highest_fence) as held:
        if period.name in record.closed_periods():
            return
        body = {
            "period": period.name,
            "basis_sha256": record.seal(plan.basis),
            "documents": [
                {"number": draft.number, "sha256": record.seal(draft.document)}
                for draft in plan.drafts
            ],
            "statement_sha256": record.seal(plan.statement),
            "corrections_sha256s": [
                event.body["corrections_sha256"]
                for event in books.ledger.pending_before(period.name)
            ],
            **record.seal_files(files, ENCLOSED),
        }
        kind = EventKind.PERIOD_CLOSED
        record.append(held, books.ledger.head, kind, body, clock.now(), holder)
