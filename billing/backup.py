"""Backups: the four kept parts of a home, copied, listed and verified; and restoring them.

Put here: copying, verifying a copy, and making a home from a copy.
Not here: when a restored record may be written (`guard`), or how evidence is verified
(`ingestion.evidence.landing`), which the caller hands in.

Everything else in a home is rebuilt from these four, byte for byte. A copy is verified against its
listing, and its contents against their names and chains, so a copy of damaged evidence is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from billing.events import Head
from billing.guard import RESTORES, mark_restored
from billing.record import Record
from billing.sealing import from_bytes, sha256, to_bytes
from domain.clock import Clock
from domain.errors import EvidenceChanged, FileDamaged, LedgerError, WrongUse
from warehouse.home import LAYOUT_FILE, Home
from warehouse.lease import LEASE_KEY
from warehouse.store import FolderStore, KeyNotAllowed, Store, open_store, validate_key

LISTING = "backup.json"
SCHEMA = "gpu-ledger/backup/1"
FOLDERS = ("decisions/", "landing/", "record/")
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)

VerifyEvidence = Callable[[Store, Record], Iterable[LedgerError]]
"""All problems of a landing and the record beside it."""


class NotABackup(WrongUse):
    """A folder without a listing of a backup, or a target folder that is not empty."""

    code = "HOME-001"

    def __init__(self, folder: Path, seen: str) -> None:
        super().__init__(
            where=str(folder),
            seen=seen,
            why="a backup has a listing, which is written after all files",
            remedy="to restore, name a finished backup; to back up, an empty folder outside a home",
        )


class BackupChanged(EvidenceChanged):
    """A file of a backup is missing, new or changed."""

    code = FileDamaged.code

    def __init__(self, folder: Path, name: str, seen: str) -> None:
        super().__init__(
            where=f"{folder}/{name}",
            seen=seen,
            why="a restored home would differ from the home that was backed up",
            remedy="use another backup",
        )


@dataclass(frozen=True, slots=True)
class Backup:
    """The files of a backup, and its problems."""

    folder: Path
    files: dict[str, str]  # name → hash
    head: Head
    byte_count: int
    problems: tuple[LedgerError, ...]


def back_up(home: Home, folder: Path, verify_evidence: VerifyEvidence) -> Backup:
    """Copy the four kept parts into an empty folder, and verify the copy.

    A damaged home is copied as well; the problems of the copy are then those of the home.
    """
    if folder.exists() and any(folder.iterdir()):
        raise NotABackup(folder, "the folder is not empty")
    if folder.resolve().is_relative_to(home.path.resolve()):
        raise NotABackup(folder, f"the folder is inside the home {home.path}")
    target = FolderStore(folder)
    listing: dict[str, str] = {}
    # The head is read first: the backup has all events up to it, perhaps later ones too.
    head = _head_of(Record(home.record_store()))
    for name, body in _kept_files(home):
        target.create(name, body)
        listing[name] = sha256(body)
    document = {
        "schema": SCHEMA,
        "files": listing,
        "head": {"sequence": head.sequence, "sha256": head.sha256},
    }
    target.create(LISTING, to_bytes(document))
    return verify_backup(folder, verify_evidence)


def verify_backup(folder: Path, verify_evidence: VerifyEvidence) -> Backup:
    """Read a whole backup; compare it with its listing, and its contents with names and chains."""
    listing, head = _listing(folder)
    target = FolderStore(folder)
    problems: list[LedgerError] = []
    found = set(target.list("")) - {LISTING}
    for name in sorted(found - set(listing)):
        problems.append(BackupChanged(folder, name, "it is there and not listed"))
    size = 0
    for name, digest in sorted(listing.items()):
        if name not in found:
            problems.append(BackupChanged(folder, name, "it is listed and missing"))
        elif (folder / name).is_symlink():
            problems.append(BackupChanged(folder, name, "it is a symbolic link, not a copy"))
        else:
            body = target.read(name)
            size += len(body)
            if sha256(body) != digest:
                problems.append(_other_bytes(folder, name, body, digest))
    record = Record(FolderStore(folder / "record"))
    problems += record.verify(head)
    problems += verify_evidence(FolderStore(folder / "landing"), record)
    return Backup(folder, listing, head, size, tuple(problems))


def restore(backup: Backup, path: Path, clock: Clock) -> Home:
    """Make a home from a verified backup; its record stays read-only until it is released."""
    for problem in backup.problems:
        raise problem
    if path.exists() and any(path.iterdir()):
        raise NotABackup(path, "the folder for the restored home is not empty")
    source = FolderStore(backup.folder)

    def listed(*prefixes: str) -> Iterator[tuple[str, bytes]]:
        """The files of a part; each hash is compared again."""
        for name, digest in sorted(backup.files.items()):
            if name.startswith(prefixes):
                body = source.read(name)
                if sha256(body) != digest:
                    raise _other_bytes(backup.folder, name, body, digest)
                yield name, body

    parts = FolderStore(path)
    for name, body in listed("config.toml", LAYOUT_FILE, "decisions/"):
        parts.create(name, body)
    home = Home.create(path)
    home.migrate()  # before anything is written: a newer home is refused
    stores = {"landing/": home.landing_store(), "record/": home.record_store()}
    for store in stores.values():
        if store.list(""):
            raise NotABackup(Path(store.location), "the place for the restored part is not empty")
    record = Record(home.record_store())
    # Before all other keys, so that the record of an unfinished restore is read-only.
    mark_restored(record, backup.head, clock.now())
    for prefix, store in stores.items():
        for name, body in listed(prefix):
            store.create(name.removeprefix(prefix), body)
    for broken in record.verify():
        raise broken
    return home


def _head_of(record: Record) -> Head:
    """The end of the record; the zero head for a damaged record."""
    try:
        return record.head()
    except EvidenceChanged:
        return Head()


def _kept_files(home: Home) -> Iterator[tuple[str, bytes]]:
    """The record before the landing, so that the copy has all evidence that the record names."""
    yield "config.toml", home.config_path.read_bytes()
    if home.layout_path.is_file():
        yield LAYOUT_FILE, home.layout_path.read_bytes()
    decisions = open_store(home.decisions)
    for key in decisions.list(""):
        yield f"decisions/{key}", decisions.read(key)
    record, landing = home.record_store(), home.landing_store()
    for key in _keys(record, "events/"):
        if _is_kept(key):
            yield f"record/{key}", record.read(key)
    for key in _keys(landing, "manifests/"):
        yield f"landing/{key}", landing.read(key)


def _keys(store: Store, referring: str) -> list[str]:
    """All keys; first those that refer to others, which were written before them."""
    first = store.list(referring)
    return first + [key for key in store.list("") if not key.startswith(referring)]


def _is_kept(key: str) -> bool:
    """Leases belong to running writers, and a restored record gets a mark of its own."""
    return key != LEASE_KEY and not key.startswith(RESTORES)


def _other_bytes(folder: Path, name: str, body: bytes, digest: str) -> BackupChanged:
    return BackupChanged(folder, name, f"its hash is {sha256(body)}, and it is listed as {digest}")


def _listing(folder: Path) -> tuple[dict[str, str], Head]:
    """The files that a backup lists, and the head of its record."""
    path = folder / LISTING
    if not path.is_file():
        raise NotABackup(folder, f"it has no {LISTING}")
    try:
        document = from_bytes(path.read_bytes())
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {str(document['schema'])[:80]!r}, not {SCHEMA!r}")
        files = {_listed_name(name): _listed_hash(sha) for name, sha in document["files"].items()}
        head = Head(int(document["head"]["sequence"]), str(document["head"]["sha256"]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as cause:
        wrong = f"{type(cause).__name__}: {cause}"
        raise NotABackup(folder, f"its {LISTING} is not a listing ({wrong})") from None
    return files, head


def _listed_name(name: str) -> str:
    """The name, if a backup may list it: a restore writes no other files."""
    try:
        validate_key(name)
    except KeyNotAllowed as cause:
        raise ValueError(cause.seen) from None
    is_kept = name.startswith(FOLDERS) and _is_kept(name.removeprefix("record/"))
    if name not in ("config.toml", LAYOUT_FILE) and not is_kept:
        raise ValueError(f"{name!r} is not a file of a backup")
    return name


def _listed_hash(digest: object) -> str:
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise ValueError(f"{str(digest)[:80]!r} is not a SHA-256")
    return digest
