"""A recount: a closed period counted again, and the differences recorded as corrections.

Put here: the order of the steps, which decisions a recount uses, and the reasons to refuse.
Not here: the counting (`warehouse.build`, into a file beside), or the differences (`corrections`).

Nothing re-opens: the corrections become lines of the next period that is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from billing.basis import sealed_decisions
from billing.books import Books
from billing.commits import commit_corrections, corrections_from
from billing.events import Event, Ledger
from billing.gate import require_billable
from billing.grounds import read_grounds
from billing.guard import require_writable
from billing.lines import Line
from billing.record import Record
from billing.retention import require_held
from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.decisions import Amendment, Decisions
from domain.errors import WrongUse
from domain.findings import Judgement
from warehouse.home import Home

LATE_EVIDENCE = "evidence that arrived or changed after the close"


class PeriodIsOpen(WrongUse):
    """A period that was never closed has nothing to correct."""

    code = "RECOUNT-001"

    def __init__(self, period: BillingPeriod) -> None:
        super().__init__(
            where=f"period {period}",
            seen="it is not closed",
            why="only what was issued can be corrected; an open period is simply refreshed",
            remedy=f"gpu-ledger refresh --period {period}",
        )


@dataclass(frozen=True, slots=True)
class RecountDecisions:
    """The decisions that a recount counts with, and the amendments that changed them."""

    decisions: Decisions
    amendments: tuple[Amendment, ...]

    @property
    def reason(self) -> str:
        """What stands on the correction lines."""
        if not self.amendments:
            return LATE_EVIDENCE
        return "; ".join(
            f"{row.amended_table} amended by {row.decided_by} and {row.second_name}: {row.reason}"
            for row in self.amendments
        )


@dataclass(frozen=True, slots=True)
class RecountResult:
    """The corrections of a recount; recorded or only shown."""

    period: BillingPeriod
    lines: tuple[Line, ...]
    currency: str
    recorded: bool

    @property
    def nanos(self) -> int:
        return sum(line.cost_nanos for line in self.lines)


def recount_decisions(home: Home, period: BillingPeriod, present: Decisions) -> RecountDecisions:
    """The decisions sealed at the close, with the tables that two people amended taken as now."""
    record = Record(home.record_store())
    event = _close_of(record.ledger(), period)
    sealed = sealed_decisions(record.sealed(str(event.body["basis_sha256"])))
    now = present.valid_in(period.interval)
    amendments = tuple(row for row in present.amendments if row.billing_period == period)
    tables = {row.amended_table: getattr(now, row.amended_table) for row in amendments}
    return RecountDecisions(replace(sealed, **tables), amendments)


def recount_period(
    home: Home,
    period: BillingPeriod,
    counted_with: RecountDecisions,
    facts_path: Path,
    judge: Callable[[], Judgement],
    clock: Clock,
    *,
    dry_run: bool = True,
    holder: str = "gpu-ledger recount",
) -> RecountResult:
    """Compare the facts in `facts_path` with what was billed; record the difference if asked to."""
    record = Record(home.record_store())
    books = Books(record, record.ledger())
    stood_on = record.sealed(str(_close_of(books.ledger, period).body["basis_sha256"]))
    judgement = judge()
    grounds = read_grounds(home, facts_path, period, counted_with.decisions, judgement)
    basis = grounds.basis
    require_held(home.landing_store(), period, stood_on["evidence"], basis.evidence)
    lines = corrections_from(books, basis, grounds.usage, counted_with.reason)
    if dry_run or not lines:
        return RecountResult(period, tuple(lines), basis.currency, recorded=False)
    require_billable(judgement, basis.currency)
    require_writable(home, record, books.ledger)
    amendments = [_amendment_entry(row) for row in counted_with.amendments]
    commit_corrections(books, basis, lines, counted_with.reason, amendments, clock, holder)
    return RecountResult(period, tuple(lines), basis.currency, recorded=True)


def _close_of(ledger: Ledger, period: BillingPeriod) -> Event:
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
