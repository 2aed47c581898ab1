"""What is written to the record, and in which order: seals first, then one event under the lease.

Put here: the three commits (a close, corrections, a void), on what the record says alone.
Not here: reading facts, checking or refusing (`close`, `recount`, `voiding`).

The one event is the commit. Before it nothing is issued and no number is taken; after it everything
is. Whoever is killed before leaves sealed bytes that nobody refers to, and runs again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from billing.basis import Basis
from billing.books import Books, correction_currencies
from billing.bundle import Files
from billing.corrections import corrections_document, corrections_of
from billing.events import Event, EventKind
from billing.gate import require_billable
from billing.grounds import Grounds
from billing.lines import Line
from billing.numbering import next_position, number_text, position_of
from billing.plan import Plan, plan_close
from billing.record import Record
from billing.rendering import ENCLOSED
from billing.sealing import Document, sha256
from billing.usage import ChargeKey, Usage
from billing.voids import negated, open_period_after
from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.money import CurrenciesDiffer
from warehouse.lease import lease


def plan_from(books: Books, grounds: Grounds, issued_at: datetime) -> Plan:
    """The documents of a close: usage, and the corrections that wait for an invoice."""
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
    books: Books, period: BillingPeriod, plan: Plan, clock: Clock, holder: str, files: Files
) -> None:
    """Issue every document of a plan; nothing, if the period was closed meanwhile.

    `files`: every file that is issued, by its name in a bundle; the event names their hashes.
    """
    require_billable(plan.check_result, str(plan.basis["currency"]))
    record = books.record
    # Whatever was recorded since the plan was made moved the head, and its numbers are not used.
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
            **_seal_files(record, files),
        }
        kind = EventKind.PERIOD_CLOSED
        record.append(held, books.ledger.head, kind, body, clock.now(), holder)


def _seal_files(record: Record, files: Files) -> Document:
    """The part of an event that names the files it issues."""
    listed = {name: sha256(content) for name, content in files.items()}
    enclosed = [
        {"schema": "gpu-ledger/enclosed-file/1", "name": name, "text": files[name].decode()}
        for name in ENCLOSED
        if name in files
    ]
    return {
        "files_sha256": record.seal({"schema": "gpu-ledger/issued-files/1", "files": listed}),
        "enclosed_sha256s": [record.seal(document) for document in enclosed],
    }


def corrections_from(
    books: Books, basis: Basis, usage: Usage, reason_of: Callable[[ChargeKey], str]
) -> list[Line]:
    """The differences between a recounted period and everything that was billed for it."""
    return corrections_of(
        basis.period,
        list(books.lines()),
        books.withdrawn_lines(),
        usage.charges,
        reason_of,
        books.numbers_of(basis.period.name),
    )


def commit_corrections(
    books: Books,
    basis: Basis,
    lines: Sequence[Line],
    reason: str,
    amendments: Iterable[Mapping[str, str]],
    clock: Clock,
    holder: str,
) -> None:
    """Record corrections; they stand on the next invoice."""
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


def commit_void(
    books: Books,
    number: str,
    reason: str,
    clock: Clock,
    holder: str,
    render: Callable[[Document], Files],
) -> Event:
    """Issue the void of a document, in the books of the first open period after it."""
    record, ledger = books.record, books.ledger
    with lease(record.store, holder, clock, above=ledger.highest_fence) as held:
        period = open_period_after(ledger, books.issued(number).period)
        series = position_of(number)[0]
        numbers = [document.number for document in ledger.documents()]
        void_number = number_text(series, next_position(series, numbers))
        issued_at = clock.now().replace(microsecond=0)
        original: dict[str, Any] = books.document(number)
        document: Document = negated(original, void_number, period, issued_at, reason)
        body = {
            "period": period.name,
            "voids": number,
            "documents": [{"number": void_number, "sha256": record.seal(document)}],
            **_seal_files(record, render(document)),
        }
        kind = EventKind.INVOICE_VOIDED
        return record.append(held, ledger.head, kind, body, clock.now(), holder)
