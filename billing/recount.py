"""A recount: a closed period is counted again, and the differences are recorded as corrections.

Put here: the order of the steps, the decisions of a recount, the reasons to refuse, and its event.
Not here: counting (`warehouse.build`, into a file beside), or the differences (`corrections`).

The period stays closed: the corrections become lines of the next period that is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from billing.basis import Basis, sealed_decisions
from billing.billed_facts import read_grounds
from billing.books import LedgerDocuments
from billing.corrections import corrections_document, corrections_of
from billing.events import EventKind, Ledger, RecordEvent
from billing.gate import require_billable
from billing.guard import require_writable
from billing.landed_evidence import require_held
from billing.lines import Line
from billing.record import Record
from billing.usage import ChargeKey, DocumentUsage
from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.decisions import Amendment, Decisions, Row
from domain.errors import WrongUse
from domain.findings import CheckResult
from warehouse.home import Home
from warehouse.lease import lease

LATE_EVIDENCE = "evidence that arrived or changed after the close"
NO_CAUSE = "counted again; neither the evidence nor the decisions have changed"


class PeriodIsOpen(WrongUse):
    """An open period has no bills to correct."""

    code = "CLOSE-004"

    def __init__(self, period: BillingPeriod) -> None:
        super().__init__(
            where=f"period {period}",
            seen="it is not closed",
            why="only issued documents are corrected; an open period is refreshed",
            remedy=f"gpu-ledger refresh --period {period}",
        )


@dataclass(frozen=True, slots=True)
class RecountDecisions:
    """The decisions of a recount, and the amendments that changed them."""

    decisions: Decisions
    amendments: tuple[Amendment, ...]


@dataclass(frozen=True, slots=True)
class RecountCause:
    """A change since the last count of the period, and the charges that it can concern."""

    reason: str
    scopes: tuple[Mapping[str, str], ...]  # column → value; no column concerns every charge

    def concerns(self, key: ChargeKey) -> bool:
        return any(
            all(getattr(key, name) == value for name, value in scope.items())
            for scope in self.scopes
        )


def causes_of_difference(
    before: Mapping[str, Any], basis: Basis, amendments: Iterable[Amendment]
) -> list[RecountCause]:
    """The changes between the basis of the last count of a period and that of a recount."""
    sealed = sealed_decisions(before)
    causes = []
    for row in amendments:
        reason = f"{row.amended_table} amended by {row.decided_by} and {row.second_name}: "
        changed = set(sealed.rows(row.amended_table)) ^ set(basis.decisions.rows(row.amended_table))
        scopes = tuple(_scope(one) for one in sorted(changed, key=repr))
        causes.append(RecountCause(reason + row.reason, scopes))
    evidence = before["evidence"]
    clusters = {*evidence, *basis.evidence}
    changed_in = sorted(c for c in clusters if evidence.get(c) != basis.evidence.get(c))
    causes.append(RecountCause(LATE_EVIDENCE, tuple({"cluster_id": name} for name in changed_in)))
    if before["code_version"] != basis.code_version:
        versions = f"{basis.code_version}, before by {before['code_version']}"
        causes.append(RecountCause(f"counted by gpu-ledger {versions}", ({},)))
    return [cause for cause in causes if cause.scopes]


def _scope(row: Row) -> dict[str, str]:
    """The columns of a decision that limit its charges."""
    columns = {"cluster_id": "cluster_id", "tenant": "namespace", "gpu_class": "gpu_class"}
    limits = {name: str(getattr(row, column, "")) for name, column in columns.items()}
    return {name: value for name, value in limits.items() if value}


def reason_for(causes: Sequence[RecountCause], key: ChargeKey) -> str:
    """The reason on the correction of a charge: the causes that can concern it."""
    found = [cause for cause in causes if cause.concerns(key)] or causes
    return "; ".join(cause.reason for cause in found) or NO_CAUSE


@dataclass(frozen=True, slots=True)
class RecountResult:
    """The corrections of a recount, and whether they were recorded."""

    period: BillingPeriod
    lines: tuple[Line, ...]
    currency: str
    recorded: bool

    @property
    def nanos(self) -> int:
        return sum(line.cost_nanos for line in self.lines)


def recount_decisions(home: Home, period: BillingPeriod, present: Decisions) -> RecountDecisions:
    """The decisions sealed at the close; amended tables as they are now."""
    record = Record(home.record_store())
    event = _close_of(record.ledger(), period)
    sealed = sealed_decisions(record.sealed(str(event.body["basis_sha256"])))
    now = present.valid_in(period.interval)
    amendments = tuple(row for row in present.amendments if row.billing_period == period)
    tables = {str(row.amended_table): getattr(now, row.amended_table) for row in amendments}
    return RecountDecisions(replace(sealed, **tables), amendments)


def recount_period(
    home: Home,
    period: BillingPeriod,
    counted_with: RecountDecisions,
    facts_path: Path,
    check_period: Callable[[], CheckResult],
    clock: Clock,
    *,
    dry_run: bool = True,
    holder: str = "gpu-ledger recount",
) -> RecountResult:
    """Compare the facts in `facts_path` with the bills; record the difference without `dry_run`."""
    record = Record(home.record_store())
    books = LedgerDocuments(record, record.ledger())
    first_basis = record.sealed(str(_close_of(books.ledger, period).body["basis_sha256"]))
    last = [e for e in books.ledger.corrections() if e.body["corrects_period"] == period.name]
    last_basis = record.sealed(str(last[-1].body["basis_sha256"])) if last else first_basis
    check_result = check_period()
    grounds = read_grounds(home, facts_path, period, counted_with.decisions, check_result)
    basis = grounds.basis
    require_held(home.landing_store(), period, first_basis["evidence"], basis.evidence)
    causes = causes_of_difference(last_basis, basis, counted_with.amendments)
    reason_of = partial(reason_for, causes)
    lines = corrections_from(books, basis, grounds.usage, reason_of)
    if dry_run or not lines:
        return RecountResult(period, tuple(lines), basis.currency, recorded=False)
    require_billable(check_result, basis.currency)
    require_writable(home, record, books.ledger)
    amendments = [_amendment_entry(row) for row in counted_with.amendments]
    reason = "; ".join(sorted({line.reason for line in lines}))
    commit_corrections(books, basis, lines, reason, amendments, clock, holder)
    return RecountResult(period, tuple(lines), basis.currency, recorded=True)


def _close_of(ledger: Ledger, period: BillingPeriod) -> RecordEvent:
    event = ledger.closes().get(period.name)
    if event is None:
        raise PeriodIsOpen(period)
    return event


def _amendment_entry(row: Amendment) -> dict[str, str]:
    return {
        "amended_table": row.amended_table,
        "reason": row.reason,
        "decided_by": row.decided_by,
        "second_name": row.second_name,
        "decided_on": row.decided_on.isoformat(),
    }


# The commit ---------------------------------------------------------------------------------------


def corrections_from(
    books: LedgerDocuments,
    basis: Basis,
    usage: DocumentUsage,
    reason_of: Callable[[ChargeKey], str],
) -> list[Line]:
    """The differences between a recounted period and all bills for it."""
    return corrections_of(
        basis.period,
        list(books.lines()),
        books.withdrawn_lines(),
        usage.charges,
        reason_of,
        books.numbers_of(basis.period.name),
    )


def commit_corrections(
    books: LedgerDocuments,
    basis: Basis,
    lines: Sequence[Line],
    reason: str,
    amendments: Iterable[Mapping[str, str]],
    clock: Clock,
    holder: str,
) -> None:
    """Record corrections in one event; the next invoice has them."""
    require_billable(basis.check_result, basis.currency)
    record, period = books.record, basis.period
    with lease(record.store, holder, clock, above=books.ledger.highest_fence) as held:
        basis_sha256 = record.seal(basis.document())
        document = corrections_document(
            period, basis.currency, lines, basis_sha256, reason, amendments
        )
        body = {
            "corrects_period": period.name,
            "basis_sha256": basis_sha256,
            "corrections_sha256": record.seal(document),
        }
        kind = EventKind.CORRECTIONS_RECORDED
        record.append(held, books.ledger.head, kind, body, clock.now(), holder)
