"""Backups: the four kept parts of a home, copied, listed and verified; and the way back.

Put here: what is copied, how a copy is checked, and how a home is made from one.
Not here: when a restored record may be written (`guard`).

Everything else in a home is rebuilt from these four, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from billing.events import Head
from billing.guard import RESTORES, mark_restored
from billing.record import Record
from billing.sealing import sha256, to_bytes
from domain.clock import Clock
from domain.errors import EvidenceChanged, WrongUse
from warehouse.home import Home
from warehouse.lease import LEASE_KEY
from warehouse.store import FolderStore, open_store

LISTING = "backup.json"
SCHEMA = "gpu-ledger/backup/1"


class NotABackup(WrongUse):
    """A folder without a listing, or one that already holds something."""

    code = "BACKUP-001"

    def __init__(self, folder: Path, seen: str) -> None:
        super().__init__(
            where=str(folder),
            seen=seen,
            why="a backup is known by its listing, which is written last, when all of it is there",
            remedy="name a finished backup to restore from, or an empty folder to back up into",
        )


class BackupChanged(EvidenceChanged):
    """A file of a backup that is not what was backed up."""

    code = "BACKUP-002"

    def __init__(self, folder: Path, name: str, seen: str) -> None:
        super().__init__(
            where=f"{folder}/{name}",
            seen=seen,
            why="a home restored from it would not be the home that was backed up",
            remedy="use another backup; this one proves nothing any more",
        )


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup holds."""

    file_count: int
    byte_count: int
    head_sequence: int
    head_sha256: str


def back_up(home: Home, folder: Path) -> BackupReport:
    """Copy the four kept parts into an empty folder, and read every copy back."""
    if folder.exists() and any(folder.iterdir()):
        raise NotABackup(folder, "the folder is not empty")
    # The head is taken first: what is appended meanwhile is not promised, what is older is.
    head = Record(home.record_store()).head()
    target = FolderStore(folder)
    listing: dict[str, str] = {}
    size = 0
    for name, body in _kept_files(home):
        target.create(name, body)
        listing[name] = sha256(body)
        size += len(body)
    document = {
        "schema": SCHEMA,
        "files": listing,
        "head": {"sequence": head.sequence, "sha256": head.sha256},
    }
    for name, digest in listing.items():
        _require_same(folder, name, target.read(name), digest)
    target.create(LISTING, to_bytes(document))
    return BackupReport(len(listing), size, head.sequence, head.sha256)


def verify_backup(folder: Path) -> BackupReport:
    """Read a whole backup and compare it with its listing; nothing more, nothing less."""
    document = _listing(folder)
    target = FolderStore(folder)
    listing: dict[str, str] = document["files"]
    found = set(target.list("")) - {LISTING}
    for name in sorted(found ^ set(listing)):
        seen = "it is listed and missing" if name in listing else "it is there and not listed"
        raise BackupChanged(folder, name, seen)
    size = 0
    for name, digest in sorted(listing.items()):
        body = target.read(name)
        _require_same(folder, name, body, digest)
        size += len(body)
    head = document["head"]
    return BackupReport(len(listing), size, head["sequence"], head["sha256"])


def restore(folder: Path, path: Path, clock: Clock) -> Home:
    """Make a home from a verified backup; its record stays read-only until it is admitted."""
    verify_backup(folder)
    if path.exists() and any(path.iterdir()):
        raise NotABackup(path, "the folder for the restored home is not empty")
    source = FolderStore(folder)
    document = _listing(folder)
    listing: dict[str, str] = document["files"]
    head = document["head"]
    parts = FolderStore(path)
    for name, digest in sorted(listing.items()):
        if not name.startswith(("landing/", "record/")):
            parts.create(name, _require_same(folder, name, source.read(name), digest))
    home = Home.create(path)
    stores = {"landing/": home.landing_store(), "record/": home.record_store()}
    for store in stores.values():
        if store.list(""):
            raise NotABackup(Path(store.location), "the place for the restored part is not empty")
    record = Record(home.record_store())
    # First of all, so that a restore which dies half-way leaves nothing that could be written.
    mark_restored(record, Head(head["sequence"], head["sha256"]), clock.now())
    for prefix, store in stores.items():
        for name, digest in sorted(listing.items()):
            if name.startswith(prefix):
                body = _require_same(folder, name, source.read(name), digest)
                store.create(name.removeprefix(prefix), body)
    for problem in record.verify():
        raise problem
    return home


def _kept_files(home: Home) -> Iterator[tuple[str, bytes]]:
    yield "config.toml", home.config_path.read_bytes()
    decisions = open_store(home.decisions)
    for key in decisions.list(""):
        yield f"decisions/{key}", decisions.read(key)
    for prefix, store in (("landing", home.landing_store()), ("record", home.record_store())):
        for key in store.list(""):
            # A lease belongs to a running writer, and a restored record has its own guard.
            if key != LEASE_KEY and not key.startswith(RESTORES):
                yield f"{prefix}/{key}", store.read(key)


def _require_same(folder: Path, name: str, body: bytes, digest: str) -> bytes:
    if (found := sha256(body)) != digest:
        raise BackupChanged(folder, name, f"its hash is {found}, and it is listed as {digest}")
    return body


def _listing(folder: Path) -> dict[str, Any]:
    path = folder / LISTING
    if not path.is_file():
        raise NotABackup(folder, f"it has no {LISTING}")
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document
