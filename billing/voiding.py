"""Voiding: a document of its own that negates an issued one, in the open period.

Put here: which documents can be voided, and the void as a document.
Not here: what is billed instead: a recount of the period finds it, and records corrections.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from billing.books import Books
from billing.events import EventKind, Ledger, NumberedDocument
from billing.guard import require_writable
from billing.invoice import DocumentKind
from billing.lines import LineKind
from billing.numbering import next_position, number_text, position_of
from billing.record import Record
from billing.sealing import Document
from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.errors import WrongUse
from domain.interval import format_instant
from warehouse.home import Home
from warehouse.lease import lease


class CannotBeVoided(WrongUse):
    """A document that is void already, or a void itself."""

    code = "VOID-001"

    def __init__(self, number: str, seen: str) -> None:
        super().__init__(
            where=f"document {number}",
            seen=seen,
            why="negating twice would give back money that was charged once",
            remedy="count the period again (`gpu-ledger recount`) to bill it as it should be",
        )


def void_document(
    home: Home, number: str, reason: str, clock: Clock, *, holder: str = "gpu-ledger void"
) -> NumberedDocument:
    """Issue the void of a document, in the books of the first open period after it."""
    record = Record(home.record_store())
    books = Books(record, record.ledger())
    _require_voidable(books, number)
    require_writable(home, record, books.ledger)
    with lease(record.store, holder, clock, above=books.ledger.highest_fence) as held:
        period = open_period_after(books.ledger, books.issued(number).period)
        issued_at = clock.now().replace(microsecond=0)
        series = position_of(number)[0]
        numbers = [document.number for document in books.ledger.documents()]
        void_number = number_text(series, next_position(series, numbers))
        original = books.document(number)
        document = negated(original, void_number, period, issued_at, reason)
        body = {
            "period": period.name,
            "voids": number,
            "documents": [{"number": void_number, "sha256": record.seal(document)}],
        }
        kind = EventKind.INVOICE_VOIDED
        event = record.append(held, books.ledger.head, kind, body, clock.now(), holder)
    return next(event.documents())


def open_period_after(ledger: Ledger, period: str) -> BillingPeriod:
    """The first period after this one that is not closed."""
    closes = ledger.closes()
    candidate = BillingPeriod(period).next()
    while candidate.name in closes:
        candidate = candidate.next()
    return candidate


def negated(
    original: Mapping[str, Any],
    number: str,
    period: BillingPeriod,
    issued_at: datetime,
    reason: str,
) -> Document:
    """The void: every amount and every quantity with the other sign, to the last digit."""
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
        "lines": [_negated_line(line, original["number"]) for line in original["lines"]],
        "workload_days": [_negated_use(day) for day in original["workload_days"]],
        "pods": [_negated_use(pod) for pod in original["pods"]],
        "voids": original["number"],
        "reason": reason,
    }


def _negated_line(line: Mapping[str, Any], number: str) -> Document:
    return {
        **_negated_use(line),
        "kind": LineKind.VOID.value,
        "billed_cost": _minus(line["billed_cost"]),
        "reason": f"voids line {line['line']} of {number}",
        "refers_to": number,
    }


def _negated_use(entry: Mapping[str, Any]) -> Document:
    return {**entry, "device_seconds": -entry["device_seconds"], "cost": _minus(entry["cost"])}


def _minus(amount: str) -> str:
    if not amount.strip("-0."):
        return amount
    return amount[1:] if amount.startswith("-") else f"-{amount}"


def _require_voidable(books: Books, number: str) -> None:
    voided_by = books.ledger.voided_by()
    books.issued(number)
    if number in voided_by:
        raise CannotBeVoided(number, f"it is void since {voided_by[number]}")
    if number in voided_by.values():
        raise CannotBeVoided(number, "it is a void itself")
