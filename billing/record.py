"""The record: an append-only chain of events and the sealed documents that they name.

Put here: sealing, appending under a fenced lease, reading with every hash checked.
Not here: the state that follows from events (`events`), contents of documents, or rendering.

    events/<sequence>.json    chained by previous_sha256, each with the fence of its writer
    sealed/<sha256>.json      documents under their own hash; written before the event that names
                              them, so a crash leaves at most a document without an event
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from billing.events import (
    INVOICE,
    STATEMENT,
    UNREADABLE_EVENT_ERRORS,
    EventKind,
    Head,
    Ledger,
    NumberedDocument,
    RecordEvent,
    chain_problems,
    missing_numbers,
)
from billing.sealing import Document, SealBroken, from_bytes, require_seal, sha256, to_bytes
from domain.errors import EvidenceChanged, TemporarilyUnavailable
from warehouse.lease import Lease
from warehouse.store import ObjectMissing, Store

_EVENTS = "events/"


class RecordChangedConcurrently(TemporarilyUnavailable):
    """Another writer added an event in the meantime."""

    code = "LOCK-001"

    def __init__(self, location: str, expected: Head, found: Head) -> None:
        super().__init__(
            where=f"{location}/{_EVENTS}",
            seen=f"it ended at event {expected.sequence} when this command began, "
            f"and ends at event {found.sequence} now",
            why="document numbers and corrections were calculated for the earlier head",
            remedy="run the same command again",
        )


class StaleWriter(TemporarilyUnavailable):
    """The lease of the writer is older than the last event."""

    code = "LOCK-001"

    def __init__(self, location: str, fence: int, highest: int) -> None:
        super().__init__(
            where=f"{location}/{_EVENTS}",
            seen=f"this command has fence {fence}; fence {highest} has already written",
            why="a writer that lost its lease must not add events after a newer writer",
            remedy="run the same command again",
        )


class RecordChanged(EvidenceChanged):
    """The chain has a break, or a sealed object that it names is missing or changed."""

    code = "RECORD-001"

    def __init__(self, location: str, key: str, seen: str) -> None:
        super().__init__(
            where=f"{location}/{key}",
            seen=seen,
            why="the record proves that no invoice was changed, removed or added later",
            remedy="restore record/ from a backup that has the latest head that was kept outside",
        )


class Record:
    """The record in a store. No method overwrites or deletes."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def ledger(self) -> Ledger:
        """The state that follows from the events; raises RecordChanged if the chain has a break."""
        found = self._event_bytes()
        for key, problem in chain_problems(found):
            raise RecordChanged(self.store.location, key, problem)
        return Ledger(tuple(RecordEvent.from_bytes(body) for _, body in found))

    def events(self) -> list[RecordEvent]:
        return list(self.ledger().events)

    def head(self) -> Head:
        return self.ledger().head

    def closed_periods(self) -> frozenset[str]:
        return frozenset(self.ledger().closes())

    def invoices(self, period: str) -> list[NumberedDocument]:
        """The documents of a period: its invoices, and voids of earlier ones."""
        return [document for document in self.ledger().documents() if document.period == period]

    def seal(self, document: Mapping[str, object]) -> str:
        """Store a document under its hash and return the hash; the same document is stored once."""
        body = to_bytes(document)
        digest = sha256(body)
        if not self.store.create(sealed_key(digest), body):
            self.sealed_bytes(digest)
        return digest

    def sealed_bytes(self, digest: str) -> bytes:
        """The bytes under a seal; raises SealBroken if they have another hash."""
        key = sealed_key(digest)
        return require_seal(f"{self.store.location}/{key}", self.store.read(key), digest)

    def sealed(self, digest: str) -> Document:
        return from_bytes(self.sealed_bytes(digest))

    def seal_files(self, files: Mapping[str, bytes], enclosed: Iterable[str]) -> Document:
        """Seal the list of issued files and the enclosed texts; returns fields for the event."""
        hashes = {name: sha256(content) for name, content in files.items()}
        texts = [
            {"schema": "gpu-ledger/enclosed-file/1", "name": name, "text": files[name].decode()}
            for name in enclosed
            if name in files
        ]
        return {
            "files_sha256": self.seal({"schema": "gpu-ledger/issued-files/1", "files": hashes}),
            "enclosed_sha256s": [self.seal(text) for text in texts],
        }

    def listed_files(self, event: RecordEvent) -> dict[str, str]:
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
    ) -> RecordEvent:
        """Add the event after `after`; raises if the record has another head or a newer fence."""
        ledger = self.ledger()
        if ledger.head != after:
            raise RecordChangedConcurrently(self.store.location, after, ledger.head)
        fence = lease.check()
        if fence < ledger.highest_fence:
            raise StaleWriter(self.store.location, fence, ledger.highest_fence)
        at = recorded_at.replace(microsecond=0)
        event = RecordEvent(after.sequence + 1, after.sha256, fence, at, recorded_by, kind, body)
        if not self.store.create(event_key(event.sequence), event.to_bytes()):
            raise RecordChangedConcurrently(self.store.location, after, self.head())
        return event

    def verify(self, attested: Head | None = None) -> list[EvidenceChanged]:
        """All problems of the record."""
        problems = [*self._chain(), *self._seals()]
        if not problems:
            problems = [*self._numbers(), *self._known_head(attested)]
        return problems

    def _chain(self) -> Iterator[EvidenceChanged]:
        for key, problem in chain_problems(self._event_bytes()):
            yield RecordChanged(self.store.location, key, problem)

    def _seals(self) -> Iterator[EvidenceChanged]:
        for key, body in self._event_bytes():
            try:
                seals = sorted(set(RecordEvent.from_bytes(body).sealed_sha256s()))
            except UNREADABLE_EVENT_ERRORS:
                continue  # reported by _chain
            for digest in seals:
                try:
                    self.sealed_bytes(digest)
                except SealBroken as broken:
                    yield broken
                except ObjectMissing:
                    wrong = f"it names {sealed_key(digest)}, which does not exist"
                    yield RecordChanged(self.store.location, key, wrong)

    def _numbers(self) -> Iterator[EvidenceChanged]:
        numbers = [document.number for document in self.ledger().documents()]
        for series in (INVOICE, STATEMENT):
            for number in missing_numbers(series, numbers):
                wrong = f"number {number} is missing or was assigned twice"
                yield RecordChanged(self.store.location, _EVENTS, wrong)

    def _known_head(self, attested: Head | None) -> Iterator[EvidenceChanged]:
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
