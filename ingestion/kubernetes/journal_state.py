"""The collector's state machine: observations in, journal lines out; no clock, no network.

Put here: the rules by which an observation adds lines.
Not here: requests (`requests`, `collector`), writing segments (`journal`), the times in a pod's
status (`pod_times`), the memory itself (`known_objects`).

The rules, in the order of their importance:
1. An incomplete list closes nothing. A complete one from which more than a fifth is missing is
   taken twice, and only objects that both lack are gone.
2. A pod whose end or deletion was reported never opens again: a contradicting observation is kept
   as a contradiction only. A pod that was only *absent* opens again when it is seen.
3. Observations are idempotent on (uid, resourceVersion): a repeated event adds no line.
4. A watch is unbroken between two events or bookmarks, also across a reconnect that continues from
   the last resource version; a gap begins at the last of them and ends at the next list.
5. A line has the time of its observation, not of its processing: an event is observed when it
   arrives, also during a long list, and a list shows the objects at the time of its request.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from domain.interval import format_instant
from ingestion.kubernetes.documents import StoredDocument, uid_of, version_in
from ingestion.kubernetes.journal_lines import (
    Line,
    alive_at,
    contradiction_line,
    last_seen,
    line_of,
    object_line,
    pod_line,
)
from ingestion.kubernetes.known_objects import KnownObjects, note_uid, recorded
from ingestion.kubernetes.observations import (
    Access,
    Bookmark,
    Broken,
    Event,
    Listed,
    ListedPage,
    Observation,
    OwnerSeen,
)
from ingestion.kubernetes.owner_chains import OwnerChains
from ingestion.kubernetes.pod_times import Contradiction, PodFacts
from ingestion.kubernetes.projections import (
    POD_LABELS,
    PROJECTIONS,
    Document,
    Projection,
    matters,
    pod,
)
from ingestion.kubernetes.projections import owner as owner_projection

RESOURCES = tuple(PROJECTIONS)

# More than a fifth of everything gone between two looks is a fault far more often than the truth.
MASS_ABSENCE_SHARE = (1, 5)

LISTED_VIA = frozenset({"list", "hourly_list"})

# A collector's clock is set now and then; only a jump of more than this is worth a line.
CLOCK_BACK_TOLERANCE = timedelta(seconds=2)


class JournalState:
    """The known state of a cluster."""

    def __init__(
        self,
        resources: tuple[str, ...] = RESOURCES,
        pod_labels: tuple[str, ...] = POD_LABELS,
    ) -> None:
        self.streams = {resource: KnownObjects(resource) for resource in resources}
        self._projections = dict(PROJECTIONS) | {"pods": partial(pod, kept_labels=pod_labels)}
        self.owner_chains = OwnerChains()
        self.last_at: datetime | None = None
        self._previous_at: dict[tuple[str, bool], datetime] = {}  # by resource, and watch or list
        self.replayed_count = 0
        self.second_look: set[str] = set()  # resources to be listed a second time
        self.relist: dict[str, str] = {}  # resources whose watch has to begin again, and why

    def apply(self, observation: Observation) -> list[Line]:
        """The lines that this observation adds to the journal."""
        lines: list[Line] = []
        at = self._forward(observation, lines)
        match observation:
            case ListedPage():
                self._page(observation, at, lines)
            case Listed():
                self._list(observation, at, lines)
            case Event():
                self._event(observation, at, lines)
            case Bookmark():
                self._bookmark(observation, at, lines)
            case Broken():
                self._broken(observation, at, lines)
            case OwnerSeen():
                self._owner(observation, at, lines)
            case Access():
                line = line_of("access", at, resource=observation.resource)
                lines.append(line | {"allowed": observation.allowed})
        return lines

    @property
    def open_pod_count(self) -> int:
        return sum(1 for r in self.streams["pods"].records.values() if not r.facts.terminal)

    def intervals(self) -> list[Line]:
        """The intervals watched since the last call."""
        return [line for stream in self.streams.values() for line in stream.take_watched_interval()]

    def unknown_owners(self, documents: Iterable[Document]) -> dict[str, Projection]:
        """For pods that matter, the first owner of each chain that was not looked up, by UID."""
        unknown: dict[str, Projection] = {}
        for document in documents:
            if not matters(document):
                continue
            meta = owner_projection(document)["metadata"]
            owner = self.owner_chains.next_unknown(meta.get("owner", {}))
            if owner:
                unknown[owner["uid"]] = owner | {"namespace": meta.get("namespace", "")}
        return unknown

    # --- observations -------------------------------------------------------------------------

    def _forward(self, observation: Observation, lines: list[Line]) -> datetime:
        """The time of the line, never before that of the last one; a clock set back has a line."""
        at = observation.at.replace(microsecond=0)
        before = self._clock_before(observation, at)
        if before is not None and before - at > CLOCK_BACK_TOLERANCE:
            note = Contradiction("clock_went_back", format_instant(before), format_instant(at))
            lines.append(contradiction_line(max(before, self.last_at or at), "clock", "", note))
        self.last_at = max(at, self.last_at or at)
        return self.last_at

    def _clock_before(self, observation: Observation, at: datetime) -> datetime | None:
        """The time of the previous observation of the same origin: a watch, or the lists.

        Events of a watch are in order, and so are lists, but an event can wait during a long list.
        That is no clock going back, nor is a failed watch, which has the time of its beginning.
        """
        if isinstance(observation, Broken):
            return None
        origin = (observation.resource, isinstance(observation, Event | Bookmark))
        first_word = None if self._previous_at else self.last_at  # after a restart: of the journal
        before = self._previous_at.get(origin, first_word)
        self._previous_at[origin] = at
        return before

    def _event(self, event: Event, at: datetime, lines: list[Line]) -> None:
        stream = self.streams[event.resource]
        if event.version <= stream.version:
            self.replayed_count += 1
            return
        stream.version = event.version
        heard_before, told_at = stream.heard_until, event.at.replace(microsecond=0)
        stream.hear(told_at)
        uid = uid_of(event.document)
        if uid and (event.resource != "pods" or matters(event.document)):
            if event.verb == "DELETED":
                self._deleted(event, uid, at, heard_before, lines)
            else:
                verb = event.verb.lower()
                self._observe_object(
                    stream, event.document, event.version, verb, at, told_at, lines
                )
        self._request_second_lists(stream)

    def _bookmark(self, mark: Bookmark, at: datetime, lines: list[Line]) -> None:
        stream = self.streams[mark.resource]
        if mark.version < stream.version:
            self._set_back(stream, mark.version, at, lines)
            return
        stream.version = mark.version
        stream.hear(mark.at.replace(microsecond=0))
        self._request_second_lists(stream)

    def _broken(self, broken: Broken, at: datetime, lines: list[Line]) -> None:
        stream = self.streams[broken.resource]
        if stream.live:
            line = line_of("broken", at, resource=broken.resource, reason=broken.reason)
            lines.append(line)
        stream.live = False

    def _owner(self, seen: OwnerSeen, at: datetime, lines: list[Line]) -> None:
        if seen.uid not in self.owner_chains.owners:
            self.owner_chains.note_owner(seen.uid, seen.projection)
            lines.append(line_of("owner", at, uid=seen.uid) | {"object": seen.projection})

    # --- lists --------------------------------------------------------------------------------

    def _page(self, page: ListedPage, at: datetime, lines: list[Line]) -> None:
        stream = self.streams[page.resource]
        if page.first:
            stream.listing, stream.known_count = set(), len(stream.records)
            stream.listed_at = at
            if page.version and page.version < stream.version:
                self._set_back(stream, page.version, at, lines)
        via = "hourly_list" if page.why == "hourly" else "list"
        # A list that began a watch is followed by it from the list's version on.
        seen_at = at if page.begins else page.began_at.replace(microsecond=0)
        ended: list[StoredDocument] = []
        for document in page.documents:
            uid, version = uid_of(document), version_in(document)
            known = stream.records.get(uid)
            # The requests of a pod do not change, so a known pod is always relevant.
            if not uid or (known is None and page.resource == "pods" and not matters(document)):
                continue
            stream.listing.add(uid)
            if known is not None and known.facts.ended_at and version <= known.version:
                ended.append(known.in_short())
            else:
                self._observe_object(stream, document, version, via, at, seen_at, lines)
        if ended and via == "hourly_list":
            lines.append(line_of("still_there", at, resource=page.resource) | {"objects": ended})

    def _list(self, listed: Listed, at: datetime, lines: list[Line]) -> None:
        stream = self.streams[listed.resource]
        if not listed.paged:
            version = listed.version if listed.complete else 0
            whole = ListedPage(
                *(listed.resource, at, listed.why, listed.documents, version, True),
                began_at=listed.began_at,
            )
            self._page(whole, at, lines)
        header = line_of("listed", at, resource=listed.resource, why=listed.why)
        header |= {"began_at": format_instant(listed.began_at.replace(microsecond=0))}
        header |= {"complete": listed.complete, "reason": listed.reason}
        if listed.complete and listed.begins:
            began_at = stream.listed_at or at
            lines.extend(stream.begin_again(began_at, listed.version, listed.reason or listed.why))
            stream.live = False
            self.relist.pop(listed.resource, None)
            header["version"] = listed.version
        # Only a complete list shows that an object is gone.
        absent = stream.records.keys() - stream.listing if listed.complete else set()
        lines.append(header | {"count": len(stream.listing), "absent": len(absent)})
        self._absent(stream, listed, absent, at, lines)
        stream.listing = set()

    def _absent(
        self,
        stream: KnownObjects,
        listed: Listed,
        absent: set[str],
        at: datetime,
        lines: list[Line],
    ) -> None:
        """Close the objects that a complete list lacks, or request a second list.

        A watch that continues will report the deletion, with the pod's last status. A second list
        decides only if the watch passed the list without a deletion, or if too many objects are
        missing at once.
        """
        if not listed.complete:
            return
        if listed.why == "second_look":
            gone = absent & stream.suspects
            stream.suspects = set()
        elif absent and not listed.begins:
            stream.suspects, stream.suspects_version = absent, listed.version
            return
        elif len(absent) * MASS_ABSENCE_SHARE[1] > stream.known_count * MASS_ABSENCE_SHARE[0]:
            stream.suspects, stream.suspects_version = absent, listed.version
            self.second_look.add(stream.resource)
            return
        else:
            gone = absent
        for uid in sorted(gone):
            self._gone(stream, uid, at, lines)

    def _request_second_lists(self, stream: KnownObjects) -> None:
        """Request a second list when the watch passed the first one without a deletion."""
        stream.suspects &= stream.records.keys()
        if stream.suspects and stream.version >= stream.suspects_version:
            self.second_look.add(stream.resource)

    def _set_back(
        self, stream: KnownObjects, version: int, at: datetime, lines: list[Line]
    ) -> None:
        """The store of the server was set back: versions before mean other states."""
        before, after = str(stream.version), str(version)
        note = Contradiction("resource_version_went_back", before, after)
        lines.append(contradiction_line(at, stream.resource, "", note))
        for record in stream.records.values():
            record.version = 0
        stream.version = 0
        self.relist[stream.resource] = "resource version went back"

    # --- objects ------------------------------------------------------------------------------

    def _observe_object(
        self,
        stream: KnownObjects,
        document: Document,
        version: int,
        via: str,
        at: datetime,
        seen_at: datetime,
        lines: list[Line],
    ) -> None:
        """An object exists."""
        resource, uid = stream.resource, uid_of(document)
        if uid in stream.tombstones:
            if uid not in stream.reappeared:
                note = Contradiction("alive_after_end", str(stream.tombstones[uid]), str(version))
                lines.append(contradiction_line(at, resource, uid, note))
                note_uid(stream.reappeared, uid, version)
            return
        known = stream.records.get(uid)
        if known is not None and version < known.version:
            return
        notes: list[Contradiction] = []
        projection: Document
        if known is not None and 0 < version == known.version:
            record, projection = known, known.projection()
            record.seen_at = seen_at  # rule 3: there is nothing new to be read
        else:
            projection = self._projections[resource](document)
            record, notes = recorded(resource, known, projection, version, seen_at)
        if known is None and stream.absent.pop(uid, None) is not None:
            notes.append(Contradiction("absent_then_seen", "absent", via))
        stream.records[uid] = record
        lines.extend(contradiction_line(at, resource, uid, note) for note in notes)
        # A list writes unchanged objects, too: after a gap nothing else shows that an object still
        # existed, and its time would end where the gap began.
        if known is not None and known.digest == record.digest and via not in LISTED_VIA:
            return
        line = self._object_line(resource, via, at, projection, record.facts)
        lines.append(line | (alive_at(seen_at, at, record.facts) if resource == "pods" else {}))

    def _deleted(
        self,
        event: Event,
        uid: str,
        at: datetime,
        heard_before: datetime | None,
        lines: list[Line],
    ) -> None:
        """A deletion was reported; the object's last form may contain new facts."""
        stream = self.streams[event.resource]
        if uid in stream.tombstones:
            self.replayed_count += 1
            return
        known = stream.records.pop(uid, None)
        projection = self._projections[event.resource](event.document)
        record, notes = recorded(event.resource, known, projection, event.version, at)
        lines.extend(contradiction_line(at, event.resource, uid, note) for note in notes)
        line = self._object_line(event.resource, "deleted", at, projection, record.facts)
        lines.append(line | last_seen(heard_before if known is not None else None))
        note_uid(stream.tombstones, uid, event.version)

    def _gone(self, stream: KnownObjects, uid: str, at: datetime, lines: list[Line]) -> None:
        """An object is gone, and its deletion was not reported."""
        record = stream.records.pop(uid, None)
        if record is None:
            return
        last = stream.lost_at if stream.lost_at is not None else record.seen_at
        if stream.live:
            note = Contradiction("delete_not_told", "watched", "absent from two lists")
            lines.append(contradiction_line(at, stream.resource, uid, note))
        projection = record.projection()
        line = self._object_line(stream.resource, "gone", at, projection, record.facts)
        lines.append(line | last_seen(max(last, record.seen_at)))
        note_uid(stream.absent, uid, record.version)

    def _object_line(
        self, resource: str, via: str, at: datetime, projection: Document, facts: PodFacts
    ) -> Line:
        if resource == "pods":
            return pod_line(via, at, projection, facts, self.owner_chains.of_pod(projection))
        if resource == "namespaces":
            self.owner_chains.note_namespace(projection, there=via not in ("deleted", "gone"))
        return object_line(resource, via, at, projection)
