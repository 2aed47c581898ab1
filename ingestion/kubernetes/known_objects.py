"""The existing objects, as last seen, and the end of each watch so far.

Put here: the memory of the collector and its operations. Not here: the rules (`journal_state`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from domain.interval import Interval, format_instant
from ingestion.kubernetes.documents import StoredDocument
from ingestion.kubernetes.journal_lines import Line, line_of
from ingestion.kubernetes.pod_times import Contradiction, PodFacts, merge_status, read_facts
from ingestion.kubernetes.projections import Projection

# Deleted objects are remembered, so that a repeated event cannot open them; one has 100 bytes.
TOMBSTONES_LIMIT = 50_000


@dataclass(slots=True)
class KnownObject:
    """One existing object, as last seen."""

    uid: str
    version: int
    seen_at: datetime
    digest: bytes
    body: bytes  # the projection as JSON, which is smaller than as objects
    facts: PodFacts = field(default_factory=PodFacts)
    short: StoredDocument | None = None  # for the list of ended pods, once it was needed

    def projection(self) -> StoredDocument:
        return StoredDocument(self.body)

    def in_short(self) -> StoredDocument:
        """The short form of an ended pod; its status was written when it ended."""
        if self.short is None:
            self.short = StoredDocument(written(self._shorten()))
        return self.short

    def _shorten(self) -> Line:
        whole = self.projection()
        short = {
            "metadata": {k: v for k, v in whole["metadata"].items() if k != "labels"},
            "spec": {name: type(part)() for name, part in whole["spec"].items()},
            "status": {name: type(part)() for name, part in whole["status"].items()},
        }
        short["spec"]["nodeName"] = whole["spec"]["nodeName"]
        short["status"]["phase"] = whole["status"]["phase"]
        return {"version": self.version, "object": short, "facts": self.facts.as_line()}


@dataclass(slots=True)
class KnownObjects:
    """The known objects of one resource, and the state of its watch."""

    resource: str
    records: dict[str, KnownObject] = field(default_factory=dict)
    tombstones: dict[str, int] = field(default_factory=dict)  # reported as deleted: uid → version
    reappeared: dict[str, int] = field(default_factory=dict)  # reported as deleted, and seen later
    absent: dict[str, int] = field(default_factory=dict)  # not listed, and may be seen again
    version: int = 0  # every change until here was reported
    watched_from: datetime | None = None  # of the interval that is not written yet
    heard_until: datetime | None = None
    lost_at: datetime | None = None  # the last event or bookmark before the present gap
    live: bool = False
    listing: set[str] = field(default_factory=set)  # in the pages of the present list so far
    listed_at: datetime | None = None  # when the first page of the list arrived
    known_count: int = 0  # how many were known when it began
    suspects: set[str] = field(default_factory=set)  # left out by one list
    suspects_version: int = 0

    def hear(self, at: datetime) -> None:
        """Note an event or bookmark: the watch is unbroken until now."""
        self.live = True
        self.lost_at = None
        if self.watched_from is None:
            self.watched_from = at
        if self.heard_until is None or at > self.heard_until:
            self.heard_until = at

    def take_watched_interval(self, *, resumable: bool = True) -> list[Line]:
        """The interval watched since the last call, cut at hours.

        Only the last part has the version: every change until then is written.
        """
        if self.watched_from is None or self.heard_until is None:
            return []
        pieces = Interval(self.watched_from, self.heard_until).split_at_hours()
        self.watched_from = self.heard_until
        lines = []
        for piece in pieces:
            line = line_of("watched", piece.started_at, resource=self.resource)
            lines.append(line | {"until": format_instant(piece.ended_at)})
        if lines and resumable:
            lines[-1]["version"] = self.version
        return lines

    def begin_again(self, at: datetime, version: int, reason: str) -> list[Line]:
        """Continue the watch from a list; the time before the list is a gap."""
        lines = self.take_watched_interval(resumable=False)
        if self.heard_until is not None and self.heard_until < at:
            gap = line_of("gap", at, resource=self.resource, reason=reason)
            gap |= {"from": format_instant(self.heard_until), "until": format_instant(at)}
            lines.append(gap)
        self.lost_at = self.heard_until
        self.version = version
        self.watched_from = self.heard_until = at
        return lines


def recorded(
    resource: str, known: KnownObject | None, projection: Projection, version: int, at: datetime
) -> tuple[KnownObject, list[Contradiction]]:
    """The record of an object as it is now, and contradictions to its earlier state."""
    uid = projection["metadata"].get("uid", "")
    notes: list[Contradiction] = []
    facts = PodFacts()
    if resource == "pods":
        facts, notes = merge_status(known.facts if known else PodFacts(), read_facts(projection))
    # Without the version, which a heartbeat changes as well.
    meta = {k: v for k, v in projection["metadata"].items() if k != "resourceVersion"}
    content = written(projection | {"metadata": meta})
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return KnownObject(uid, version, at, digest, written(projection), facts), notes


def written(content: object) -> bytes:
    """The JSON of a content, as in a journal."""
    return msgspec.json.encode(content, order="sorted")


def note_uid(versions: dict[str, int], uid: str, version: int) -> None:
    """Note the last version of an object; the oldest notes are dropped at the limit."""
    while len(versions) >= TOMBSTONES_LIMIT:
        del versions[next(iter(versions))]
    versions[uid] = version
