"""The record: an append-only chain of events and the sealed documents behind them; the edge.

Put here: sealing, appending under a fenced lease, reading back with every hash checked.
Not here: what follows from events (`events`), what documents hold, or rendering.

    events/<sequence>.json    chained by previous_sha256, each with the fence of its writer
    sealed/<sha256>.json      documents under their own hash; written before the event that names
                              them, so that a crash leaves bytes nobody refers to, never the reverse
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from billing.events import (
    NO_EVENT,
    Event,
    EventKind,
    Head,
    Ledger,
    NumberedDocument,
    chain_problems,
)
from billing.numbering import INVOICE, STATEMENT, gaps_in
from billing.sealing import Document, SealBroken, from_bytes, require_seal, sha256, to_bytes
from domain.errors import CouldNotLook, EvidenceChanged
from warehouse.lease import Lease
from warehouse.store import ObjectMissing, Store

_EVENTS = "events/"


class RecordMovedOn(CouldNotLook):
    """Another writer appended since this one looked."""

    code = "RECORD-001"

    def __init__(self, location: str, expected: Head, found: Head) -> None:
        super().__init__(
            where=f"{location}/{_EVENTS}",
            seen=f"it ended at event {expected.sequence} when this began, "
            f"and ends at {found.sequence} now",
            why="numbers and corrections were chosen for a record that has changed since",
            remedy="run the same command again: it begins from what is recorded now",
        )


class StaleWriter(CouldNotLook):
    """A writer whose lease is older than the last event."""

    code = "RECORD-002"

    def __init__(self, location: str, fence: int, highest: int) -> None:
        super().__init__(
            where=f"{location}/{_EVENTS}",
            seen=f"this writer has fence {fence}, and fence {highest} has already written",
            why="a writer that was overtaken must not add to what the newer one has done",
            remedy="run the same command again under a new lease",
        )


class RecordChanged(EvidenceChanged):
    """The chain does not hold, or something that it names is not what was sealed."""

    code = "RECORD-003"

    def __init__(self, location: str, key: str, seen: str) -> None:
        super().__init__(
            where=f"{location}/{key}",
            seen=seen,
            why="the record is what proves that no invoice was changed, removed or added later",
            remedy="restore record/ from a backup and compare its head with the attested one",
        )


class Record:
    """The record in a store. Nothing here overwrites or deletes."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def ledger(self) -> Ledger:
        """Everything that follows from the events, the chain checked on the way."""
        found = self._event_bytes()
        for key, wrong in chain_problems(found):
            raise RecordChanged(self.store.location, key, wrong)
        return Ledger(tuple(Event.from_bytes(body) for _, body in found))

    def events(self) -> list[Event]:
        return list(self.ledger().events)

    def head(self) -> Head:
        return self.ledger().head

    def closed_periods(self) -> frozenset[str]:
        return frozenset(self.ledger().closes())

    def invoices(self, period: str) -> list[NumberedDocument]:
        """The documents in a period's books: its invoices, and voids of earlier ones."""
        return [document for document in self.ledger().documents() if document.period == period]

    def seal(self, document: Mapping[str, object]) -> str:
        """Keep a document under its hash; sealing the same one twice keeps it once."""
        body = to_bytes(document)
        digest = sha256(body)
        if not self.store.create(sealed_key(digest), body):
            self.sealed_bytes(digest)
        return digest

    def sealed_bytes(self, digest: str) -> bytes:
        """The bytes under a seal; raises SealBroken when they are others."""
        key = sealed_key(digest)
        return require_seal(f"{self.store.location}/{key}", self.store.read(key), digest)

    def sealed(self, digest: str) -> Document:
        return from_bytes(self.sealed_bytes(digest))

    def listed_files(self, event: Event) -> dict[str, str]:
        """Name in a bundle → hash, of every file that an event issued."""
        return dict(self.sealed(event.files_sha256)["files"])

    def append(
        self,
        lease: Lease,
        after: Head,
        kind: EventKind,
        body: Mapping[str, object],
        recorded_at: datetime,
        recorded_by: str,
    ) -> Event:
        """Add the event that follows `after`; refuse when the record or the lease moved on."""
        ledger = self.ledger()
        if ledger.head != after:
            raise RecordMovedOn(self.store.location, after, ledger.head)
        fence = lease.check()
        if fence < ledger.highest_fence:
            raise StaleWriter(self.store.location, fence, ledger.highest_fence)
        at = recorded_at.replace(microsecond=0)
        event = Event(after.sequence + 1, after.sha256, fence, at, recorded_by, kind, body)
        if not self.store.create(event_key(event.sequence), event.to_bytes()):
            raise RecordMovedOn(self.store.location, after, self.head())
        return event

    def verify(self, attested: Head | None = None) -> list[EvidenceChanged]:
        """Everything that is wrong with the record; empty when all of it holds."""
        problems = [*self._chain(), *self._seals()]
        if not problems:
            problems = [*self._numbers(), *self._source(attested)]
        return problems

    def _chain(self) -> Iterator[EvidenceChanged]:
        for key, wrong in chain_problems(self._event_bytes()):
            yield RecordChanged(self.store.location, key, wrong)

    def _seals(self) -> Iterator[EvidenceChanged]:
        for key, body in self._event_bytes():
            try:
                seals = sorted(set(Event.from_bytes(body).sealed_sha256s()))
            except NO_EVENT:
                continue  # named by _chain
            for digest in seals:
                try:
                    self.sealed_bytes(digest)
                except SealBroken as broken:
                    yield broken
                except ObjectMissing:
                    wrong = f"it names {sealed_key(digest)}, which is not there"
                    yield RecordChanged(self.store.location, key, wrong)

    def _numbers(self) -> Iterator[EvidenceChanged]:
        numbers = [document.number for document in self.ledger().documents()]
        for series in (INVOICE, STATEMENT):
            for number in gaps_in(series, numbers):
                wrong = f"number {number} is missing or was given twice"
                yield RecordChanged(self.store.location, _EVENTS, wrong)

    def _source(self, attested: Head | None) -> Iterator[EvidenceChanged]:
        if attested is None or attested.sequence == 0:
            return
        events = self.events()
        place = attested.sequence
        own = events[place - 1].sha256 if 0 < place <= len(events) else ""
        if own != attested.sha256:
            wrong = f"its hash is {own or 'unknown: the record ends earlier'}, "
            wrong += f"and {attested.sha256} was attested"
            yield RecordChanged(self.store.location, event_key(attested.sequence), wrong)

    def _event_bytes(self) -> list[tuple[str, bytes]]:
        return [(key, self.store.read(key)) for key in self.store.list(_EVENTS)]


def event_key(sequence: int) -> str:
    return f"{_EVENTS}{sequence:010}.json"


def sealed_key(digest: str) -> str:
    return f"sealed/{digest}.json"
