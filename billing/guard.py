"""Whether the record may be written: not after an unreleased restore, nor if a known head is lost.

Put here: the refusals, and the release of a restored record.
Not here: copying homes (`backup`), or the lease.

A backup can be older than the record that it replaces; numbers would then be assigned twice. So a
restored record stays read-only until it is compared with the latest head that was kept outside, or
until two people confirm that nothing was issued since. The heads in documents/ are compared as
well.
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
    """A record from a backup that was not released yet."""

    code = "RECORD-002"

    def __init__(self, location: str, head: Head) -> None:
        super().__init__(
            where=location,
            seen=f"restored from a backup that ends at event {head.sequence}",
            why="numbers that were issued after the backup would be issued again",
            remedy="give the latest head that was kept outside (`gpu-ledger restore --head "
            "head.json`), or let two people confirm that nothing was issued since "
            "(`gpu-ledger restore --by NAME --and NAME`)",
        )


class KnownHeadMissing(CheckFailed):
    """A head that was kept outside is not in the record."""

    code = "RECORD-001"

    def __init__(self, location: str, attested: Head, found: Head, kept_at: str) -> None:
        super().__init__(
            where=location,
            seen=f"{kept_at}: event {attested.sequence} has the hash {attested.sha256 or '-'}; "
            f"the record has {found.sha256 or '-'}",
            why="events were lost or rewritten, and their numbers would be assigned twice",
            remedy="restore the newest backup of record/ that has this head",
        )


def require_writable(home: Home, record: Record, ledger: Ledger) -> None:
    """Refuse if a restored record is not released, or a known head is missing."""
    for restore_id in _unreleased(record, ledger):
        raise RestoredRecord(f"{record.store.location}/{RESTORES}{restore_id}.json", ledger.head)
    heads = list(_heads_in_documents(home))
    # Read after the heads, so that it has the events of commands that ran in between.
    latest = record.ledger()
    for path, head in heads:
        require_head(record, latest, head, str(path))


def require_head(record: Record, ledger: Ledger, attested: Head, kept_at: str) -> None:
    """Refuse if the record does not have this head."""
    place = attested.sequence
    found = ledger.events[place - 1].sha256 if 0 < place <= len(ledger.events) else ""
    if found != attested.sha256:
        location = record.store.location
        raise KnownHeadMissing(location, attested, Head(place, found), kept_at)


def mark_restored(record: Record, head: Head, restored_at: datetime) -> str:
    """Mark the record as restored; write the mark before any other key."""
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


def release_restored(
    record: Record,
    clock: Clock,
    *,
    attested: Head | None = None,
    names: tuple[str, str] | None = None,
    holder: str = "gpu-ledger restore",
) -> None:
    """Release a restored record for writing, with a recorded reason."""
    ledger = record.ledger()
    if attested is not None:
        require_head(record, ledger, attested, "the given head")
    elif names is None or not all(names) or names[0] == names[1]:
        raise RestoredRecord(record.store.location, ledger.head)
    signed = list(names or ())
    for restore_id in list(_unreleased(record, ledger)):
        with lease(record.store, holder, clock, above=ledger.highest_fence) as held:
            body = {
                "restore_id": restore_id,
                "attested_sequence": attested.sequence if attested else 0,
                "signed_by": [] if attested else signed,
            }
            now = clock.now()
            record.append(held, ledger.head, EventKind.RECORD_RESTORED, body, now, holder)
        ledger = record.ledger()


def _unreleased(record: Record, ledger: Ledger) -> Iterator[str]:
    released = {
        str(event.body["restore_id"])
        for event in ledger.events
        if event.kind is EventKind.RECORD_RESTORED
    }
    for key in record.store.list(RESTORES):
        restore_id = key.removeprefix(RESTORES).removesuffix(".json")
        if restore_id not in released:
            yield restore_id


def _heads_in_documents(home: Home) -> Iterator[tuple[Path, Head]]:
    for path in sorted(home.documents.glob("*/head.json")):
        period = path.parent.name
        remedy = (
            f"delete it, and run `gpu-ledger close {period} --issue`, which writes missing files"
        )
        with reading(str(path), remedy):
            found = json.loads(path.read_bytes())
            head = Head(int(found["sequence"]), str(found["sha256"]))
        yield path, head
