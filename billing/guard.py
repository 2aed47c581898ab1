"""Whether a record may be written: not after a restore that nobody vouched for, nor behind a head.

Put here: what stands against writing, and how a restored record is admitted again.
Not here: copying homes (`backup`), or the lease.

A backup may be older than the record that it replaces. Writing on would give numbers twice. So a
restored record stays read-only until it is shown the latest head that a source holds, or until two
people sign that nothing was issued since. The heads that were written into documents/ are
sources too, as long as they are there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from billing.events import EventKind, Head, Ledger
from billing.record import Record
from billing.sealing import sha256, to_bytes
from domain.clock import Clock
from domain.errors import CheckFailed, WrongUse
from domain.interval import format_instant
from warehouse.home import Home
from warehouse.lease import lease
from warehouse.store import reading

RESTORES = "restores/"


class RestoredRecord(WrongUse):
    """A record that came from a backup, and for which nobody has vouched."""

    code = "RECORD-004"

    def __init__(self, location: str, head: Head) -> None:
        super().__init__(
            where=location,
            seen=f"restored from a backup that ends at event {head.sequence}",
            why="whatever was issued after that backup would be issued again under its number",
            remedy="show it the latest attested head (`gpu-ledger restore --head head.json`), or "
            "let two people sign that nothing was issued since "
            "(`gpu-ledger restore --by NAME --and NAME`)",
        )


class RecordBehindItsHead(CheckFailed):
    """A source has seen a later or another end of the record than is there now."""

    code = "RECORD-005"

    def __init__(self, location: str, attested: Head, found: Head, source: str) -> None:
        super().__init__(
            where=location,
            seen=f"{source} has event {attested.sequence} as {attested.sha256 or 'nothing'}, "
            f"and here the record has {found.sha256 or 'nothing'} at that place",
            why="events were lost or rewritten; numbers given since then would be given twice",
            remedy="restore the newest backup of record/, and do not write until it has this head",
        )


def require_writable(home: Home, record: Record, ledger: Ledger) -> None:
    """Refuse when a restore waits for somebody to vouch for it, or a known head is missing."""
    for restore_id in _unadmitted(record, ledger):
        raise RestoredRecord(f"{record.store.location}/{RESTORES}{restore_id}.json", ledger.head)
    heads = list(_heads_in_documents(home))
    # Another command may have added events meanwhile; read after the heads, it has all of them.
    latest = record.ledger()
    for path, head in heads:
        require_head(record, latest, head, str(path))


def require_head(record: Record, ledger: Ledger, attested: Head, source: str) -> None:
    """Refuse when the record does not have what a source has seen."""
    place = attested.sequence
    found = ledger.events[place - 1].sha256 if 0 < place <= len(ledger.events) else ""
    if found != attested.sha256:
        location = record.store.location
        raise RecordBehindItsHead(location, attested, Head(place, found), source)


def mark_restored(record: Record, head: Head, restored_at: datetime) -> str:
    """Remember, in the record itself and before anything else of it, that it is a restored one."""
    note = to_bytes(
        {
            "restored_at": format_instant(restored_at.replace(microsecond=0)),
            "sequence": head.sequence,
            "sha256": head.sha256,
        }
    )
    restore_id = sha256(note)[:16]
    record.store.create(f"{RESTORES}{restore_id}.json", note)
    return restore_id


def admit_restored(
    record: Record,
    clock: Clock,
    *,
    attested: Head | None = None,
    names: tuple[str, str] | None = None,
    holder: str = "gpu-ledger restore",
) -> None:
    """Let a restored record be written again, for a reason that is recorded."""
    ledger = record.ledger()
    if attested is not None:
        require_head(record, ledger, attested, "the source")
    elif names is None or not all(names) or names[0] == names[1]:
        raise RestoredRecord(record.store.location, ledger.head)
    signed = list(names or ())
    for restore_id in list(_unadmitted(record, ledger)):
        with lease(record.store, holder, clock, above=ledger.highest_fence) as held:
            body = {
                "restore_id": restore_id,
                "attested_sequence": attested.sequence if attested else 0,
                "signed_by": [] if attested else signed,
            }
            now = clock.now()
            record.append(held, ledger.head, EventKind.RECORD_RESTORED, body, now, holder)
        ledger = record.ledger()


def _unadmitted(record: Record, ledger: Ledger) -> Iterator[str]:
    admitted = {
        str(event.body["restore_id"])
        for event in ledger.events
        if event.kind is EventKind.RECORD_RESTORED
    }
    for key in record.store.list(RESTORES):
        restore_id = key.removeprefix(RESTORES).removesuffix(".json")
        if restore_id not in admitted:
            yield restore_id


def _heads_in_documents(home: Home) -> Iterator[tuple[Path, Head]]:
    for path in sorted(home.documents.glob("*/head.json")):
        with reading(str(path), "delete it: a close of the same month writes it again"):
            found = json.loads(path.read_bytes())
            head = Head(int(found["sequence"]), str(found["sha256"]))
        yield path, head
