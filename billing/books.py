"""The books: every line of every document, read back from the record.

Put here: issued documents and their lines, corrections that wait for an invoice.
Not here: what follows from them (`corrections`, `voiding`, `plan`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from billing.events import Ledger, NumberedDocument
from billing.invoice import read_line, read_lines
from billing.lines import Line
from billing.record import Record
from domain.errors import WrongUse


class NoSuchDocument(WrongUse):
    """A number under which nothing was issued."""

    code = "BOOK-001"

    def __init__(self, number: str, issued: Iterable[str]) -> None:
        last = list(issued)[-1:]
        super().__init__(
            where=f"document {number}",
            seen=f"nothing was issued under this number; the last one is {last[0]}"
            if last
            else "nothing was issued at all",
            why="only what was issued can be voided, verified or explained",
            remedy="`gpu-ledger invoice P` lists the numbers of month P",
        )


@dataclass(frozen=True, slots=True)
class Books:
    """A ledger together with the sealed documents behind it."""

    record: Record
    ledger: Ledger

    def document(self, number: str) -> dict[str, Any]:
        return self.record.sealed(self.issued(number).sha256)

    def issued(self, number: str) -> NumberedDocument:
        documents = self.ledger.documents()
        for document in documents:
            if document.number == number:
                return document
        raise NoSuchDocument(number, [document.number for document in documents])

    def numbers_of(self, period: str) -> dict[str, str]:
        """Tenant → the number of the document that the period's close issued to it."""
        close = self.ledger.closes().get(period)
        issued = list(close.documents()) if close else []
        return {str(self.record.sealed(d.sha256)["tenant"]): d.number for d in issued}

    def lines(self) -> Iterator[Line]:
        """Every line ever issued, and every correction that waits for its invoice."""
        for issued in self.ledger.documents():
            yield from read_lines(self.record.sealed(issued.sha256))
        billed = self.ledger.billed_corrections()
        waiting = [s for s in self.ledger.recorded_corrections() if s not in billed]
        for lines in correction_lines(self.record, waiting).values():
            yield from lines


def correction_lines(record: Record, seals: Iterable[str]) -> dict[str, list[Line]]:
    """Tenant → the lines of these corrections, in the order in which they were recorded."""
    lines: defaultdict[str, list[Line]] = defaultdict(list)
    for seal in seals:
        corrections: dict[str, Any] = record.sealed(seal)
        for entry in corrections["lines"]:
            lines[entry["tenant"]].append(read_line(entry["tenant"], entry))
    return dict(lines)


def correction_currencies(record: Record, seals: Iterable[str]) -> set[str]:
    """The currencies of these corrections; those of mere consumption have none."""
    found = {str(record.sealed(seal)["currency"]) for seal in seals}
    return found - {""}
