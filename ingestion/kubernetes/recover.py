"""After a stop or a crash: the state at the time of the last synced segment.

Put here: reading a journal back into the state that wrote it.
Not here: continuing from that state (`collector`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from clients.kubernetes import version_of
from domain.interval import parse_instant
from ingestion.kubernetes.journal import Segment, SegmentDamaged, latest_segments, parse_lines
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.journal_state import JournalState
from ingestion.kubernetes.known_objects import KnownObjects, note_uid, recorded
from warehouse.store import Store

# An older journal is not read: its watch could not continue, and a new list shows all objects.
# Starts that only it contains stay in the journal, and the models use the earliest of all.
RECOVERY_WINDOW = timedelta(hours=48)


def recover(store: Store, cluster_id: str, state: JournalState, now: datetime) -> int:
    """Fill `state` from the last hours of the journal; the next position of the journal."""
    chosen = latest_segments(store, cluster_id, now, RECOVERY_WINDOW)
    position, whole = 0, True
    for segment in _needed(store, chosen, state):
        try:
            lines = list(parse_lines(segment.key, store.read(segment.key)))
        except SegmentDamaged:
            whole = False
            continue
        for line in lines:
            position = max(position, line["position"] + 1)
            if whole:
                replay(state, line)
    if not whole:
        _relist_after_damage(state)
    return position


def _relist_after_damage(state: JournalState) -> None:
    """A damaged segment is lost: list again, and let the gap begin before it."""
    for stream in state.streams.values():
        stream.version = 0


def _needed(store: Store, chosen: list[Segment], state: JournalState) -> list[Segment]:
    """The segments since the last complete lists; these have all objects.

    With the segment before, which has the first pages of a list that crosses the hour.
    """
    complete: set[str] = set()
    for index in range(len(chosen) - 1, -1, -1):
        key = chosen[index].key
        try:
            lines = list(parse_lines(key, store.read(key)))
        except SegmentDamaged:
            continue
        complete |= {line["resource"] for line in lines if _is_whole(line)}
        if complete >= state.streams.keys():
            return chosen[max(0, index - 1) :]
    return chosen


def _is_whole(line: Line) -> bool:
    """Whether a line ends a list with all objects: a complete hourly one, or the first one."""
    return line["line"] == "listed" and line["complete"] and line["why"] in ("hourly", "start")


def replay(state: JournalState, line: Line) -> None:
    """Apply one line of the journal to the state that wrote it."""
    at = parse_instant(line["at"])
    if line["line"] not in ("watched", "opened"):
        closed = timedelta(seconds=1) if line["line"] == "hour_closed" else timedelta()
        state.last_at = max(at + closed, state.last_at or at)
    stream = state.streams.get(line.get("resource", ""))
    match line["line"]:
        case "object" if stream is not None:
            _replay_object(stream, line)
            if stream.resource == "namespaces":
                there = line["via"] not in ("deleted", "gone")
                state.owner_chains.note_namespace(line["object"], there=there)
        case "still_there" if stream is not None:
            for entry in line["objects"]:
                _replay_seen(stream, entry, at)
        case "owner":
            state.owner_chains.note_owner(line["uid"], line["object"])
        case "listed" if stream is not None and "version" in line:
            stream.version = line["version"]
            stream.watched_from = stream.heard_until = at
        case "watched" if stream is not None and "version" in line:
            stream.version = line["version"]
            stream.watched_from = stream.heard_until = parse_instant(line["until"])


def _replay_object(stream: KnownObjects, line: Line) -> None:
    uid = line["object"]["metadata"].get("uid", "")
    version = version_of(line["object"]["metadata"])
    if line["via"] == "deleted":
        stream.records.pop(uid, None)
        note_uid(stream.tombstones, uid, version)
    elif line["via"] == "gone":
        stream.records.pop(uid, None)
        note_uid(stream.absent, uid, version)
    else:
        _replay_seen(stream, line, parse_instant(line.get("alive_at") or line["at"]))


def _replay_seen(stream: KnownObjects, entry: Line, at: datetime) -> None:
    """The object of a line, with the facts that the line carries from before it."""
    projection = entry["object"]
    uid = projection["metadata"].get("uid", "")
    stream.absent.pop(uid, None)
    version = version_of(projection["metadata"])
    record, _ = recorded(stream.resource, stream.records.get(uid), projection, version, at)
    if "facts" in entry:
        # The facts of the line apply: it includes earlier facts, and an object in short form does
        # not.
        record.facts = replace(record.facts, **entry["facts"])
    stream.records[uid] = record
