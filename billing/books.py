"""The books: every line of every document, read from the record.

Put here: issued documents and their lines, corrections without an invoice.
Not here: new corrections, voids and documents (`corrections`, `voiding`, `plan`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from billing.events import Ledger, NumberedDocument, RecordEvent
from billing.invoice import read_line, read_lines
from billing.lines import Line
from billing.record import Record
from domain.errors import UnknownName


@dataclass(frozen=True, slots=True)
class WithdrawnLine:
    """A line that a void negates."""

    line: Line
    voided: str  # the number of the document that was voided
    void: str  # the number of its void
    reason: str  # of the void


@dataclass(frozen=True, slots=True)
class LedgerDocuments:
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
        last = f"the last one is {documents[-1].number}" if documents else "none was issued"
        raise UnknownName(
            where=f"document {number}",
            seen=f"no document has this number; {last}",
            why="only issued documents can be voided, verified or explained",
            remedy="`gpu-ledger invoice P` lists the numbers of month P",
        )

    def numbers_of(self, period: str) -> dict[str, str]:
        """Tenant → the number of the document that the period's close issued to it."""
        close = self.ledger.closes().get(period)
        issued = list(close.documents()) if close else []
        return {str(self.record.sealed(d.sha256)["tenant"]): d.number for d in issued}

    def issued_lines(self) -> Iterator[Line]:
        """Every issued line."""
        for issued in self.ledger.documents():
            yield from read_lines(self.record.sealed(issued.sha256))

    def lines(self) -> Iterator[Line]:
        """Every issued line, and every correction without an invoice."""
        yield from self.issued_lines()
        yield from self.pending_lines(self.ledger.pending_corrections())

    def pending_lines(self, pending: Iterable[RecordEvent]) -> Iterator[Line]:
        """The lines of these pending corrections, without those that a void withdrew."""
        for line, void in self.corrected_lines(pending):
            if void is None:
                yield line

    def withdrawn_lines(self) -> Iterator[WithdrawnLine]:
        """Every line that a void negates, in the order of the lines.

        These are the lines of the voided documents, and their corrections that were not on an
        invoice at the time of the void.
        """
        voids = self.ledger.voids()
        for issued in self.ledger.documents():
            if issued.number in voids:
                for line in read_lines(self.record.sealed(issued.sha256)):
                    yield self._withdrawn(line, issued.number, voids[issued.number])
        for line, void in self.corrected_lines(self.ledger.pending_corrections()):
            if void is not None:
                yield self._withdrawn(line, line.refers_to, void)

    def corrected_lines(
        self, corrections: Iterable[RecordEvent]
    ) -> Iterator[tuple[Line, RecordEvent | None]]:
        """The lines of corrections, each with the later void of the corrected document, or None."""
        voids = self.ledger.voids()
        for event in corrections:
            sealed = self.record.sealed(str(event.body["corrections_sha256"]))
            for entry in sealed["lines"]:
                line = read_line(entry["tenant"], entry)
                void = voids.get(line.refers_to)
                yield line, void if void and void.sequence > event.sequence else None

    def _withdrawn(self, line: Line, number: str, void: RecordEvent) -> WithdrawnLine:
        [issued] = void.documents()
        reason = str(self.record.sealed(issued.sha256)["reason"])
        return WithdrawnLine(line, number, issued.number, reason)


def correction_currencies(record: Record, corrections: Iterable[RecordEvent]) -> set[str]:
    """The currencies of these corrections; corrections of consumption have none."""
    sealed = (record.sealed(str(event.body["corrections_sha256"])) for event in corrections)
    return {str(document["currency"]) for document in sealed} - {""}
