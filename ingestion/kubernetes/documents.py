"""JSON objects as text, of which only what somebody looks at is read.

Put here: what a server told in a list, and what the collector remembers: the texts of them.
Not here: where they come from (`client`), what is kept of them (`observe`), or when (`state`).

An hour's list repeats almost everything that the hour before said. Whether an object is the same is
known from its UID and its resource version, and what is to be written of it is there already: so
neither is the one read nor the other written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ingestion.json_text import NOT_JSON, members

# A version is 64 bits wide; a longer text of digits is none.
VERSION_DIGITS_LIMIT = 19

Reader = Callable[[bytes | msgspec.Raw], dict[str, Any]]


class _Metadata(msgspec.Struct):
    metadata: dict[str, Any]


_metadata = msgspec.json.Decoder(_Metadata)


class _Text(Mapping[str, Any]):
    """An object that is read when somebody looks into it."""

    __slots__ = ("_inside", "text")

    def __init__(self, text: bytes | msgspec.Raw) -> None:
        self.text = text
        self._inside: dict[str, Any] | None = None

    def _read(self) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(self.text)
        return document

    def _whole(self) -> dict[str, Any]:
        if self._inside is None:
            self._inside = self._read()
        return self._inside

    def __getitem__(self, name: str) -> Any:
        return self._whole()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())


class LazyObject(_Text):
    """An object of a server's list: who it is, and which version; the rest when it is asked for.

    `read` raises what a list raises that is no JSON.
    """

    __slots__ = ("_reader", "uid", "version")

    def __init__(self, text: msgspec.Raw, uid: str, version: int, reader: Reader) -> None:
        super().__init__(text)
        self.uid, self.version, self._reader = uid, version, reader

    def _read(self) -> dict[str, Any]:
        return self._reader(self.text)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    documents: tuple[Mapping[str, Any], ...]
    version: int
    more: str


class _Name(msgspec.Struct):
    uid: str = ""
    resourceVersion: str = ""


class _Named(msgspec.Struct):
    metadata: _Name


class _Place(msgspec.Struct):
    resourceVersion: str = ""
    more: str = msgspec.field(name="continue", default="")


_named, _place = msgspec.json.Decoder(_Named), msgspec.json.Decoder(_Place)
_items = msgspec.json.Decoder(list[msgspec.Raw])


def page_of(body: bytes, reader: Reader) -> Page | None:
    """A page whose objects are read later, or None where the text is not as every server writes it.

    Then it has to be looked at as a whole: it is no list, or somebody wrote strange things into it.
    Letters are looked at first: nothing else could keep an object from being read later, when what
    stands before it is remembered already.
    """
    try:
        body.decode("utf-8")
        parts = members(body.rstrip())
        members(parts["metadata"])
        place, items = _place.decode(parts["metadata"]), _items.decode(parts["items"])
        names = [_named.decode(item).metadata for item in items]
    except (*NOT_JSON, KeyError):
        return None
    version = version_number(place.resourceVersion)
    told = (
        LazyObject(item, _uid(name.uid), version_number(name.resourceVersion), reader)
        for item, name in zip(items, names, strict=True)
    )
    return Page(tuple(told), version, place.more) if version else None


class Stored(_Text):
    """A projection as it is remembered; in a line of the journal it stands as it is."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        if name == "metadata" and self._inside is None:
            return _metadata.decode(self.text).metadata  # a fifth of it, and often all that counts
        return self._whole()[name]


def as_text(document: object) -> msgspec.Raw:
    """What stands for a remembered projection where JSON is written."""
    if not isinstance(document, Stored):
        raise TypeError(f"{type(document).__name__} has no place in a journal")
    return msgspec.Raw(document.text)


def uid_of(document: Mapping[str, Any]) -> str:
    if isinstance(document, LazyObject):
        return document.uid
    meta = document.get("metadata")
    uid = meta.get("uid", "") if isinstance(meta, Mapping) else ""
    return _uid(uid)


def _uid(uid: object) -> str:
    """A UID; "" for a text that Kubernetes gives no object."""
    return uid if isinstance(uid, str) and uid.isascii() else ""


def version_in(document: Mapping[str, Any]) -> int:
    """The resource version of an object, as a number; 0 when it has none."""
    if isinstance(document, LazyObject):
        return document.version
    return version_of(document.get("metadata"))


def version_of(meta: object) -> int:
    """A resource version as a number (Kubernetes promises since 1.35 that it is one)."""
    text = meta.get("resourceVersion", "") if isinstance(meta, Mapping) else ""
    return version_number(text) if isinstance(text, str) else 0


def version_number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= VERSION_DIGITS_LIMIT else 0
