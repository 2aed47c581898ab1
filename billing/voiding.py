"""Voiding: a document of its own that negates an issued one, in the open period.

Put here: which documents can be voided.
Not here: the void itself (`voids`), or what is billed instead: a recount of the period finds it,
and records corrections.
"""

from __future__ import annotations

from collections import defaultdict

from billing.books import Books
from billing.commits import commit_void
from billing.corrections import billed_so_far, left_of
from billing.events import NumberedDocument
from billing.guard import require_writable
from billing.invoice import read_lines
from billing.record import Record
from billing.rendering import document_files, verifier_file
from billing.usage import ChargeKey
from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.errors import WrongUse
from domain.money import format_nanos
from warehouse.home import Home


class CannotBeVoided(WrongUse):
    """A document that is void already, a void itself, or one that was corrected since."""

    code = "VOID-001"

    def __init__(self, number: str, seen: str) -> None:
        super().__init__(
            where=f"document {number}",
            seen=seen,
            why="it would give back money that was given back before, or never charged",
            remedy="`gpu-ledger recount P` counts its month P again, to bill it as it should be",
        )


def void_document(
    home: Home, number: str, reason: str, clock: Clock, *, holder: str = "gpu-ledger void"
) -> NumberedDocument:
    """Issue the void of a document."""
    record = Record(home.record_store())
    books = Books(record, record.ledger())
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


def require_voidable(books: Books, number: str) -> None:
    """Refuse what is void already, and what would give back more than was charged."""
    voided_by = books.ledger.voided_by()
    books.issued(number)
    if number in voided_by:
        raise CannotBeVoided(number, f"it is void since {voided_by[number]}")
    if number in voided_by.values():
        raise CannotBeVoided(number, "it is a void itself")
    asked: defaultdict[tuple[str, ChargeKey], int] = defaultdict(int)
    for line in read_lines(books.document(number)):
        asked[line.charge_period, line.key.charge] += line.cost_nanos
    # Corrections of this document that no invoice has yet are withdrawn by the void itself.
    pending = books.pending_lines(books.ledger.pending_corrections())
    others = (line for line in pending if line.refers_to != number)
    billed = [*books.issued_lines(), *others]
    for (name, key), nanos in asked.items():
        left = left_of(billed_so_far(billed, BillingPeriod(name)), key)
        if nanos > max(left, 0):
            seen = f"{key.gpu_class} {key.mig_profile} of {name} would give back "
            seen += f"{format_nanos(nanos)}, and after corrections {format_nanos(left)} is left"
            raise CannotBeVoided(number, seen)
