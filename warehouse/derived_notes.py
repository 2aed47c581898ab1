"""What was written into derived files, noted beside them: whose rows they hold, and their hashes.

Put here: the form of a note, and comparing files with it.
Not here: where notes and files lie (`warehouse.derived`), or making files again (`ingestion`).

A note ends with its own hash. One that is not there, of an earlier form, or changed, says nothing:
what lies beside it is made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from domain.identity import sha256

_OWN_HASH = "note_sha256"


@dataclass(frozen=True, slots=True)
class Note:
    """Of files under one name: the attempts that they hold, and the hash of each by its table."""

    attempt_ids: tuple[str, ...]  # in the order of their sequence
    sha256_by_table: Mapping[str, str]

    def text(self) -> bytes:
        said = self._said()
        return msgspec.json.encode(said | {_OWN_HASH: sha256(said)})

    def _said(self) -> dict[str, object]:
        by_table = dict(sorted(self.sha256_by_table.items()))
        return {"attempts": list(self.attempt_ids), "sha256": by_table}


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    attempts: tuple[str, ...]
    sha256: dict[str, str]
    note_sha256: str


def read_note(path: Path) -> Note | None:
    """The note, if it is there and whole."""
    try:
        text = path.read_bytes()
        written = msgspec.json.decode(text, type=_Written)
    except (OSError, ValueError):
        return None
    note = Note(written.attempts, written.sha256)
    return note if note.text() == text else None


def sha256_of_file(path: Path) -> str:
    """The hash of what lies there; nothing where nothing can be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
