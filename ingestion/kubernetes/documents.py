"""Objects of the API: their identity, and the projections that a collector keeps as text.

Put here: UID and resource version, and JSON that is decoded when it is needed.
Not here: the kept fields of an object (`projections`), or the rules (`journal_state`).

A projection as text takes a tenth of the memory, and stands in a line of the journal as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from clients.kubernetes import version_of


class _Metadata(msgspec.Struct):
    metadata: dict[str, Any]


_metadata = msgspec.json.Decoder(_Metadata)


class StoredDocument(Mapping[str, Any]):
    """A projection as text; it is decoded when a part of it is read."""

    __slots__ = ("_decoded", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._decoded: dict[str, Any] | None = None

    def _decode(self) -> dict[str, Any]:
        if self._decoded is None:
            self._decoded = msgspec.json.decode(self.text)
        return self._decoded

    def __getitem__(self, name: str) -> Any:
        if name == "metadata" and self._decoded is None:
            return _metadata.decode(self.text).metadata  # a fifth of the text, and often sufficient
        return self._decode()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decode())

    def __len__(self) -> int:
        return len(self._decode())


def as_text(document: object) -> msgspec.Raw:
    """The JSON of a remembered projection within a line of the journal."""
    if not isinstance(document, StoredDocument):
        raise TypeError(f"{type(document).__name__} has no place in a journal")
    return msgspec.Raw(document.text)


def uid_of(document: Mapping[str, Any]) -> str:
    """The UID of an object; "" for a text that is not a UID of Kubernetes."""
    meta = document.get("metadata")
    uid = meta.get("uid", "") if isinstance(meta, Mapping) else ""
    return uid if isinstance(uid, str) and uid.isascii() else ""


def version_in(document: Mapping[str, Any]) -> int:
    """The resource version of an object, as a number; 0 when it has none."""
    return version_of(document.get("metadata"))
