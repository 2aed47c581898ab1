"""Where derived files lie: one per attempt and table, or compacted to one per day and table.

Put here: the names of derived files, their notes, finding those of given attempts, and their lock.
Not here: their content (`ingestion`), or the time of compaction (`ingestion.evidence.compaction`).

    runs/<source>/<cluster_id>/<attempt_id>.<table>.3.parquet   as an attempt made it
    runs/<source>/<cluster_id>/<attempt_id>.attempts.3.json     the hashes of these files
    runs/<source>/<cluster_id>/<day>.<table>.3.parquet          the attempts of a day together
    runs/<source>/<cluster_id>/<day>.attempts.3.json            which those are, and the hashes

The file of a day may have more attempts than a build needs; each row names its attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import msgspec

from domain.errors import TemporarilyUnavailable
from domain.identity import sha256
from warehouse.file_lock import hold_lock

LAYOUT = 4
"""The version of the columns of these files. Files of another version are ignored: their
attempts count as not decoded, and are decoded again from the landing."""

PARQUET_SUFFIX = f".{LAYOUT}.parquet"
NOTE_SUFFIX = f".attempts.{LAYOUT}.json"
DAYS_NOTES = f"????-??-??{NOTE_SUFFIX}"

WAIT_SECONDS = 30.0
"""Compacting a day takes less than a second; a longer lock belongs to a build."""


class DerivedFilesInUse(TemporarilyUnavailable):
    """Another process reads or compacts the derived files."""

    code = "LOCK-001"

    def __init__(self, path: Path, waited_seconds: float) -> None:
        super().__init__(
            where=str(path),
            seen=f"another process has held these files for more than {waited_seconds:g} s",
            why="a build would miss files that are compacted while it reads them",
            remedy="let the other command end, and run this one again; nothing was changed",
        )


@contextmanager
def lock_derived_files(home_runs: Path, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock of the derived files: no other process reads, compacts or removes them.
    Adding files needs no lock."""
    # Beside the folder, which may be deleted at any time.
    lock = home_runs.with_name(f".{home_runs.name}_in_use")
    with hold_lock(lock, wait_seconds, lambda: DerivedFilesInUse(home_runs, wait_seconds)):
        yield


_OWN_HASH = "note_sha256"


@dataclass(frozen=True, slots=True)
class DerivedFilesNote:
    """The note of the files under one name: their attempts in the order of their sequence, and
    the hash of each file by its table."""

    attempt_ids: tuple[str, ...]  # in the order of their sequence
    sha256_by_table: Mapping[str, str]

    def text(self) -> bytes:
        said = self._hashed_content()
        return msgspec.json.encode(said | {_OWN_HASH: sha256(said)})

    def _hashed_content(self) -> dict[str, object]:
        by_table = dict(sorted(self.sha256_by_table.items()))
        return {"attempts": list(self.attempt_ids), "sha256": by_table}


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    attempts: tuple[str, ...]
    sha256: dict[str, str]
    note_sha256: str


def read_note(path: Path) -> DerivedFilesNote | None:
    """The note; None if it is missing or damaged."""
    try:
        text = path.read_bytes()
        written = msgspec.json.decode(text, type=_Written)
    except (OSError, ValueError):
        return None
    note = DerivedFilesNote(written.attempts, written.sha256)
    return note if note.text() == text else None


def sha256_of_file(path: Path) -> str:
    """The hash of a file; "" for an unreadable one."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class DerivedFolder:
    """The derived files of one cluster and source."""

    path: Path

    @classmethod
    def of(cls, home_runs: Path, source: str, cluster_id: str) -> DerivedFolder:
        return cls(home_runs / source / cluster_id)

    def loose(self, attempt_id: str, table: str) -> Path:
        """The file of one attempt, while it is not compacted."""
        return self._file(attempt_id, table)

    def daily(self, day: date, table: str) -> Path:
        return self._file(day.isoformat(), table)

    def _file(self, name: str, table: str) -> Path:
        return self.path / f"{name}.{table}{PARQUET_SUFFIX}"

    def note(self, name: str) -> Path:
        """The note of the files of an attempt or a day; it is written when they are complete."""
        return self.path / f"{name}{NOTE_SUFFIX}"

    def index(self, day: date) -> Path:
        """The note of a day. Once it exists, the day counts as compacted."""
        return self.note(day.isoformat())

    def compacted(self) -> dict[str, date]:
        """The day of every attempt that was compacted."""
        found: dict[str, date] = {}
        for path in sorted(self.path.glob(DAYS_NOTES)):
            if (note := read_note(path)) is not None:
                found |= dict.fromkeys(note.attempt_ids, day_of(path))
        return found

    def whole(self, tables: Iterable[str]) -> set[str]:
        """The attempts with all tables and a note; the folder is read once."""
        wanted = list(tables)
        names = {path.name for path in self.path.glob(f"*.{LAYOUT}.*")}
        loose: dict[str, set[str]] = {}
        for name in names:
            if name.endswith(PARQUET_SUFFIX):
                attempt_id, _, rest = name.partition(".")
                loose.setdefault(attempt_id, set()).add(rest.removesuffix(PARQUET_SUFFIX))
        found = {
            attempt_id
            for attempt_id, there in loose.items()
            if there.issuperset(wanted) and self.note(attempt_id).name in names
        }
        for attempt_id, day in self.compacted().items():
            if all(self.daily(day, table).name in names for table in wanted):
                found.add(attempt_id)
        return found

    def changed(self, name: str, tables: Iterable[str]) -> list[Path]:
        """The files of an attempt or a day whose hash is not the noted one."""
        note = read_note(self.note(name))
        if note is None:
            return [self.note(name)]
        return [
            self._file(name, table)
            for table in tables
            if sha256_of_file(self._file(name, table)) != note.sha256_by_table.get(table)
        ]

    def forget(self, name: str, tables: Iterable[str]) -> None:
        """Remove the files of an attempt or a day, which then counts as not decoded."""
        for path in (self.note(name), *(self._file(name, table) for table in tables)):
            path.unlink(missing_ok=True)

    def files(self, attempt_ids: Iterable[str], table: str) -> list[Path]:
        """The files that hold the given attempts' rows of a table, each once, in order."""
        compacted = self.compacted()
        paths = {
            self.daily(compacted[attempt_id], table)
            if attempt_id in compacted
            else self.loose(attempt_id, table)
            for attempt_id in attempt_ids
        }
        return sorted(path for path in paths if path.is_file())

    def present(self) -> set[str]:
        """The attempts with at least one file."""
        loose = {path.name.partition(".")[0] for path in self.path.glob(f"*{PARQUET_SUFFIX}")}
        return loose | set(self.compacted())


def day_of(note: Path) -> date:
    return date.fromisoformat(note.name.partition(".")[0])
