"""Sealed bytes: how a document becomes the bytes that are hashed, and is read back.

Put here: the canonical JSON of everything in the record, and the hash of it.
Not here: what a document holds (`invoice`, `basis`), or where it is kept (`record`).

Keys are sorted, text is ASCII, amounts are decimal text and quantities whole numbers: a receiver
who knows only JSON and SHA-256 can check a seal, in any language, without losing a digit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from domain.errors import EvidenceChanged

Document = dict[str, Any]
"""A sealed document, as JSON knows it: text, whole numbers, truth values, lists and mappings."""


class SealBroken(EvidenceChanged):
    """Sealed bytes that do not have the hash under which they were sealed."""

    code = "SEAL-001"

    def __init__(self, where: str, expected: str, found: str) -> None:
        super().__init__(
            where=where,
            seen=f"its SHA-256 is {found}, and it was sealed as {expected}",
            why="a sealed document never changes; what was rendered from this one is in doubt",
            remedy="restore the object from a backup of record/, "
            "then run `gpu-ledger verify BUNDLE`",
        )


class NotSealable(TypeError):
    """A value that has no canonical JSON; a fault of the caller."""


def to_bytes(document: Mapping[str, object]) -> bytes:
    """The canonical bytes of a document."""
    _require_sealable(document)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def from_bytes(body: bytes) -> Document:
    """Read sealed bytes back; numbers are whole, so nothing is lost."""
    document = json.loads(body, parse_float=_refuse, parse_constant=_refuse)
    if not isinstance(document, dict):
        raise ValueError("a sealed document is a JSON object")
    return document


def _refuse(text: str) -> int:
    raise ValueError(f"{text} is not a whole number")


def sha256(body: bytes) -> str:
    """The seal: SHA-256 of the bytes as they are in the file, so that `sha256sum` can check it."""
    return hashlib.sha256(body).hexdigest()


def require_seal(where: str, body: bytes, expected: str) -> bytes:
    """Return the bytes when they are those that were sealed."""
    found = sha256(body)
    if found != expected:
        raise SealBroken(where, expected, found)
    return body


def _require_sealable(value: object, path: str = "") -> None:
    if value is None or isinstance(value, (str, int)):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise NotSealable(f"{path}: the key {key!r} is not text")
            _require_sealable(item, f"{path}/{key}")
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for index, item in enumerate(value):
            _require_sealable(item, f"{path}/{index}")
    else:
        raise NotSealable(f"{path}: {type(value).__name__} has no canonical JSON")
