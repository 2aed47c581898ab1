"""The events of the record: the possible events of periods and documents, and the resulting state.

Put here: the form of an event, numbers of documents, and the state that follows from events.
Not here: storing events (`record`), or the contents of sealed documents (`invoice`).

States are those of FOCUS 1.4: a billing period is Open or Closed, and a closed one stays closed; a
document is Issued, or Issued and then Voided. Events name documents by number and hash only, so a
tenant can get the whole chain as a proof and gets no information about other tenants.

Numbers have no gaps. A number is given only in the event that issues its document, so a crash can
neither lose a number nor use one twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import cast

from billing.sealing import from_bytes, sha256, to_bytes
from domain.billing_period import BillingPeriod
from domain.errors import BadInput
from domain.interval import format_instant, parse_instant

VERSION = 1
UNREADABLE_EVENT_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    BadInput,
)
"""The exceptions of reading an event from other bytes."""


class EventKind(StrEnum):
    PERIOD_CLOSED = "period_closed"
    INVOICE_VOIDED = "invoice_voided"
    CORRECTIONS_RECORDED = "corrections_recorded"
    RECORD_RESTORED = "record_restored"
    """Added when a restored record is released for writing."""


_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NEEDED: Mapping[EventKind, frozenset[str]] = {
    EventKind.PERIOD_CLOSED: frozenset({"period", "basis_sha256", "statement_sha256"}),
    EventKind.INVOICE_VOIDED: frozenset({"period", "voids", "documents"}),
    EventKind.CORRECTIONS_RECORDED: frozenset(
        {"corrects_period", "basis_sha256", "corrections_sha256"}
    ),
    EventKind.RECORD_RESTORED: frozenset({"restore_id"}),
}
"""The keys that the body of an event must have."""


class DocumentStatus(StrEnum):
    ISSUED = "Issued"
    VOIDED = "Voided"


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """One link of the chain."""

    sequence: int
    previous_sha256: str
    fence: int
    recorded_at: datetime
    recorded_by: str
    kind: EventKind
    body: Mapping[str, object]

    def to_bytes(self) -> bytes:
        return to_bytes(
            {
                "version": VERSION,
                "sequence": self.sequence,
                "previous_sha256": self.previous_sha256,
                "fence": self.fence,
                "recorded_at": format_instant(self.recorded_at),
                "recorded_by": self.recorded_by,
                "kind": self.kind.value,
                "body": self.body,
            }
        )

    @classmethod
    def from_bytes(cls, body: bytes) -> RecordEvent:
        """The event of these bytes; raises one of UNREADABLE_EVENT_ERRORS for other bytes."""
        document = from_bytes(body)
        event = cls(
            sequence=_require_int(document["sequence"]),
            previous_sha256=_text(document["previous_sha256"]),
            fence=_require_int(document["fence"]),
            recorded_at=parse_instant(_text(document["recorded_at"])),
            recorded_by=_text(document["recorded_by"]),
            kind=EventKind(document["kind"]),
            body=document["body"],
        )
        event._require_readable_body()
        return event

    def _require_readable_body(self) -> None:
        """Check the form of the body: no later event proves the newest one."""
        needed = _NEEDED[self.kind] - self.body.keys()
        if needed:
            raise ValueError(f"it has no {min(needed)}")
        for name, value in self.body.items():
            if name in ("period", "corrects_period"):
                BillingPeriod(_text(value))
            elif name.endswith("_sha256"):
                _text(value)
        for document in self.documents():
            position_of(_text(document.number))
        for digest in self.sealed_sha256s():
            if not _SHA256.fullmatch(_text(digest)):
                raise ValueError(f"{digest[:80]!r} is not a SHA-256")

    @property
    def sha256(self) -> str:
        return sha256(self.to_bytes())

    @property
    def period(self) -> str:
        return cast(str, self.body.get("period", ""))

    @property
    def files_sha256(self) -> str:
        """The seal of the list of files that this event issues, with their hashes.

        The list is sealed apart from the event: a tenant's bundle has all events, but only the list
        of its own event.
        """
        return cast(str, self.body.get("files_sha256", ""))

    @property
    def enclosed_sha256s(self) -> tuple[str, ...]:
        """The seals of issued files with text in the record: later code may render other bytes."""
        return tuple(cast("list[str]", self.body.get("enclosed_sha256s", [])))

    def documents(self) -> Iterator[NumberedDocument]:
        """The documents that this event issues."""
        issued = cast("list[dict[str, str]]", self.body.get("documents", []))
        for entry in issued:
            yield NumberedDocument(entry["number"], entry["sha256"], self.period, self.sequence)

    def sealed_sha256s(self) -> Iterator[str]:
        """The hashes of all sealed objects that this event names."""
        for name, value in sorted(self.body.items()):
            if name.endswith("_sha256") and isinstance(value, str) and value:
                yield value
            elif name.endswith("_sha256s"):
                yield from cast("list[str]", value)
        for document in self.documents():
            yield document.sha256


@dataclass(frozen=True, slots=True, order=True)
class NumberedDocument:
    """An issued document: its number, its seal, and the period of its books."""

    number: str
    sha256: str
    period: str
    event_sequence: int


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the chain. A copy of it outside the record proves a rewrite."""

    sequence: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The state that follows from the events: periods, documents, corrections."""

    events: tuple[RecordEvent, ...]

    @property
    def head(self) -> Head:
        return Head(self.events[-1].sequence, self.events[-1].sha256) if self.events else Head()

    @property
    def highest_fence(self) -> int:
        return max((event.fence for event in self.events), default=0)

    def closes(self) -> dict[str, RecordEvent]:
        """The close of each closed period."""
        return {e.period: e for e in self.events if e.kind is EventKind.PERIOD_CLOSED}

    def documents(self) -> list[NumberedDocument]:
        """All issued documents, in the order of their issue."""
        return [document for event in self.events for document in event.documents()]

    def voids(self) -> dict[str, RecordEvent]:
        """Voided number → the event that voided it."""
        voids = [e for e in self.events if e.kind is EventKind.INVOICE_VOIDED]
        return {cast(str, e.body["voids"]): e for e in voids}

    def voided_by(self) -> dict[str, str]:
        """Voided number → number of the document that voids it."""
        return {number: next(e.documents()).number for number, e in self.voids().items()}

    def status(self, number: str) -> DocumentStatus:
        voided = number in self.voided_by()
        return DocumentStatus.VOIDED if voided else DocumentStatus.ISSUED

    def corrections(self) -> list[RecordEvent]:
        """All recorded corrections, in order."""
        return [e for e in self.events if e.kind is EventKind.CORRECTIONS_RECORDED]

    def billed_corrections(self) -> set[str]:
        """The seals of corrections that are on an invoice."""
        return {
            seal
            for event in self.closes().values()
            for seal in cast("list[str]", event.body.get("corrections_sha256s", []))
        }

    def pending_corrections(self) -> list[RecordEvent]:
        """Corrections that are not on an invoice yet."""
        billed = self.billed_corrections()
        return [e for e in self.corrections() if e.body["corrections_sha256"] not in billed]

    def pending_before(self, period: str) -> list[RecordEvent]:
        """Corrections of earlier periods that are not on an invoice yet."""
        pending = self.pending_corrections()
        return [e for e in pending if cast(str, e.body["corrects_period"]) < period]


def _require_int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{str(value)[:80]!r} is not a whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:80]!r} is not text")
    return value


def chain_problems(events: Sequence[tuple[str, bytes]]) -> list[tuple[str, str]]:
    """Check (key, bytes) in order; a (key, problem) for every break of the chain."""
    problems = []
    previous, fence = "", 0
    for sequence, (key, body) in enumerate(events, start=1):
        for problem in _link_problems(sequence, previous, fence, key, body):
            problems.append((key, problem))
        previous = sha256(body)
        fence = max(fence, _fence(body))
    return problems


def _link_problems(
    sequence: int, previous: str, fence: int, key: str, body: bytes
) -> Iterable[str]:
    try:
        event = RecordEvent.from_bytes(body)
        canonical = event.to_bytes()
    except UNREADABLE_EVENT_ERRORS as cause:
        yield f"it is not an event: {cause}"
        return
    if canonical != body:
        yield "its bytes are not canonical"
    if event.sequence != sequence or not key.endswith(f"{sequence:010}.json"):
        yield f"its sequence is {event.sequence}, expected {sequence}"
    if event.previous_sha256 != previous:
        yield f"its previous_sha256 is {event.previous_sha256 or 'empty'}, expected {previous}"
    if event.fence < fence:
        yield f"its fence {event.fence} is lower than fence {fence} of an earlier event"


def _fence(body: bytes) -> int:
    try:
        return RecordEvent.from_bytes(body).fence
    except UNREADABLE_EVENT_ERRORS:
        return 0


# Numbers of documents -----------------------------------------------------------------------------

INVOICE = "INV"
"""Invoices and voids: all documents with amounts, in one series."""

STATEMENT = "CON"
"""Consumption statements: documents without amounts."""

_DIGITS = 6
"""Enough for 1,000 tenants over 80 years of months; longer numbers are allowed."""

_FORM = re.compile(r"([A-Z]{3})-(\d{6,})", re.ASCII)


def number_text(series: str, position: int) -> str:
    """`INV-000001` is the first."""
    if position < 1:
        raise ValueError(f"the first number is 1, not {position}")
    return f"{series}-{position:0{_DIGITS}}"


def position_of(number: str) -> tuple[str, int]:
    """The series and the position of a number."""
    match = _FORM.fullmatch(number)
    if not match:
        raise ValueError(f"{number!r} is not a document number")
    return match[1], int(match[2])


def next_position(series: str, issued: Iterable[str]) -> int:
    """The position after the last one issued."""
    return 1 + max((n for s, n in map(position_of, issued) if s == series), default=0)


def missing_numbers(series: str, issued: Iterable[str]) -> list[str]:
    """Numbers that are missing or used twice; empty when the series is gapless."""
    positions = sorted(n for s, n in map(position_of, issued) if s == series)
    wrong = {n for n, following in pairwise(positions) if n == following}
    missing = set(range(1, (positions or [0])[-1] + 1)) - set(positions)
    return [number_text(series, n) for n in sorted(wrong | missing)]
