"""Voiding: a document of its own that negates an issued one, in an open period.

Put here: which documents can be voided, the void as a document, and its event.
Not here: the new bill of the period: a recount finds it, and records corrections.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from billing.books import LedgerDocuments
from billing.corrections import billed_so_far, remaining_nanos
from billing.events import (
    EventKind,
    Ledger,
    NumberedDocument,
    RecordEvent,
    next_position,
    number_text,
    position_of,
)
from billing.guard import require_writable
from billing.invoice import DocumentKind, read_lines
from billing.lines import LineKind
from billing.record import Record
from billing.rendering.document_files import ENCLOSED, document_files, verifier_file
from billing.sealing import Document
from billing.usage import ChargeKey
from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.errors import WrongUse
from domain.interval import format_instant
from domain.money import format_nanos
from warehouse.home import Home
from warehouse.lease import lease


class CannotBeVoided(WrongUse):
    """A voided document, a void itself, or a document that was corrected since."""

    code = "VOID-001"

    def __init__(self, number: str, seen: str) -> None:
        super().__init__(
            where=f"document {number}",
            seen=seen,
            why="a void must not return money twice, or money that was not charged",
            remedy="`gpu-ledger recount P` counts its month P again and corrects the bill",
        )


def void_document(
    home: Home, number: str, reason: str, clock: Clock, *, holder: str = "gpu-ledger void"
) -> NumberedDocument:
    """Issue the void of a document."""
    record = Record(home.record_store())
    books = LedgerDocuments(record, record.ledger())
    require_voidable(books, number)
    require_writable(home, record, books.ledger)
    event = commit_void(
        books,
        number,
        reason,
        clock,
        holder,
        lambda void: {**document_files(void), **verifier_file()},
    )
    return next(event.documents())


def require_voidable(books: LedgerDocuments, number: str) -> None:
    """Refuse a voided document, and a void that would return more than was charged."""
    voided_by = books.ledger.voided_by()
    books.issued(number)
    if number in voided_by:
        raise CannotBeVoided(number, f"it is void since {voided_by[number]}")
    if number in voided_by.values():
        raise CannotBeVoided(number, "it is a void itself")
    returned: defaultdict[tuple[str, ChargeKey], int] = defaultdict(int)
    for line in read_lines(books.document(number)):
        returned[line.charge_period, line.key.charge] += line.cost_nanos
    # The void itself withdraws corrections of this document that are not on an invoice yet.
    pending = books.pending_lines(books.ledger.pending_corrections())
    others = (line for line in pending if line.refers_to != number)
    billed = [*books.issued_lines(), *others]
    for (name, key), nanos in returned.items():
        left = remaining_nanos(billed_so_far(billed, BillingPeriod(name)), key)
        if nanos > max(left, 0):
            seen = f"{key.gpu_class} {key.mig_profile} of {name} would return "
            seen += f"{format_nanos(nanos)}; after corrections {format_nanos(left)} is left"
            raise CannotBeVoided(number, seen)


# The void -----------------------------------------------------------------------------------------

_VOIDED_FIELDS = ("billing_period", "period_started_at", "period_ended_at", "issued_at")


def open_period_after(ledger: Ledger, period: str) -> BillingPeriod:
    """The first period after this one that is not closed."""
    closes = ledger.closes()
    candidate = BillingPeriod(period).next()
    while candidate.name in closes:
        candidate = candidate.next()
    return candidate


def negate(
    original: Mapping[str, Any],
    number: str,
    period: BillingPeriod,
    issued_at: datetime,
    reason: str,
) -> Document:
    """The void: every amount and every quantity with the other sign."""
    return {
        **original,
        "document": DocumentKind.VOID.value,
        "number": number,
        "billing_period": period.name,
        "period_started_at": format_instant(period.started_at),
        "period_ended_at": format_instant(period.ended_at),
        "issued_at": format_instant(issued_at),
        "total_cost": _minus(original["total_cost"]),
        "total_billed_cost": _minus(original["total_billed_cost"]),
        "tax": {**original["tax"], "amount": _minus(original["tax"]["amount"])},
        "total_payable": _minus(original["total_payable"]),
        "payment": {**original["payment"], "due_on": "", "terms": "", "bank_details": []},
        "lines": [_negate_line(line, original["number"]) for line in original["lines"]],
        "workload_days": [_negate_use(day) for day in original["workload_days"]],
        "pods": [_negate_use(pod) for pod in original["pods"]],
        "voids": original["number"],
        "voided": {name: original[name] for name in _VOIDED_FIELDS},
        "reason": reason,
    }


def _negate_line(line: Mapping[str, Any], number: str) -> Document:
    return {
        **_negate_use(line),
        "kind": LineKind.VOID.value,
        "billed_cost": _minus(line["billed_cost"]),
        "reason": f"voids line {line['line']} of {number}",
        "refers_to": number,
    }


def _negate_use(entry: Mapping[str, Any]) -> Document:
    return {**entry, "device_seconds": -entry["device_seconds"], "cost": _minus(entry["cost"])}


def _minus(amount: str) -> str:
    if not amount.strip("-0."):
        return amount
    return amount[1:] if amount.startswith("-") else f"-{amount}"


# The commit ---------------------------------------------------------------------------------------


def commit_void(
    books: LedgerDocuments,
    number: str,
    reason: str,
    clock: Clock,
    holder: str,
    render: Callable[[Document], Mapping[str, bytes]],
) -> RecordEvent:
    """Issue the void of a document, in the books of the first open period after it."""
    record, ledger = books.record, books.ledger
    with lease(record.store, holder, clock, above=ledger.highest_fence) as held:
        period = open_period_after(ledger, books.issued(number).period)
        series = position_of(number)[0]
        numbers = [document.number for document in ledger.documents()]
        void_number = number_text(series, next_position(series, numbers))
        issued_at = clock.now().replace(microsecond=0)
        original: dict[str, Any] = books.document(number)
        document: Document = negate(original, void_number, period, issued_at, reason)
        body = {
            "period": period.name,
            "voids": number,
            "documents": [{"number": void_number, "sha256": record.seal(document)}],
            **record.seal_files(render(document), ENCLOSED),
        }
        kind = EventKind.INVOICE_VOIDED
        return record.append(held, ledger.head, kind, body, clock.now(), holder)
