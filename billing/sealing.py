"""Sealed bytes: the canonical JSON of the documents of the record, and its hash.

Put here: writing, hashing and reading canonical JSON.
Not here: the contents of documents (`invoice`, `basis`), or their storage (`record`).

Keys are sorted, text is ASCII, amounts are decimal text and quantities whole numbers: a receiver
can check a seal with JSON and SHA-256 alone, in any language, without losing a digit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from domain.errors import EvidenceChanged

Document = dict[str, Any]
"""A document of JSON values: text, whole numbers, booleans, null, lists and mappings."""


class SealBroken(EvidenceChanged):
    """Sealed bytes that do not have the hash of their seal."""

    code = "RECORD-001"

    def __init__(self, where: str, expected: str, found: str) -> None:
        super().__init__(
            where=where,
            seen=f"its SHA-256 is {found}; it was sealed as {expected}",
            why="a sealed document never changes; files rendered from this one may be wrong",
            remedy="restore the object from a backup of record/, "
            "then run `gpu-ledger verify BUNDLE`",
        )


class NotSealable(TypeError):
    """A value without canonical JSON; an error of the caller."""


def to_bytes(document: Mapping[str, object]) -> bytes:
    """The canonical bytes of a document."""
    _require_sealable(document)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def from_bytes(body: bytes) -> Document:
    """Read sealed bytes; all numbers are whole, so no digit is lost."""
    document = json.loads(body, parse_float=_refuse, parse_constant=_refuse)
    if not isinstance(document, dict):
        raise ValueError("a sealed document is a JSON object")
    return document


def _refuse(text: str) -> int:
    raise ValueError(f"{text} is not a whole number")


def sha256(body: bytes) -> str:
    """SHA-256 of the bytes of the file, as `sha256sum` prints it."""
    return hashlib.sha256(body).hexdigest()


def require_seal(where: str, body: bytes, expected: str) -> bytes:
    """Return the bytes; raises SealBroken if they have another hash."""
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
