"""Canonical bytes and hashes: one record, one hash, on every machine and in every year.

Put here: how values become bytes that are hashed.
Not here: the hashed values, or where hashes are kept.

Two records never share bytes by accident: every part is preceded by its type and its length, so
("ab", "c") and ("a", "bc") differ, and so do 1 and "1". Floats are refused: they have no
agreed canonical form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

import msgspec

from domain.interval import format_instant

_JSON = msgspec.json.Encoder(order="sorted")
_ALLOWED = "only text, bytes, whole numbers, decimals, fractions, times, lists and mappings"


def canonical(value: object) -> bytes:
    """The canonical, self-delimiting bytes of a value."""
    kind, body = _kind_and_body(value)
    return b"%s%d:%s" % (kind, len(body), body)


def sha256(value: object) -> str:
    """The hash of a value's canonical bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def sha256_bytes(body: bytes) -> str:
    """The hash of bytes as they are (a file, an answer)."""
    return hashlib.sha256(body).hexdigest()


def canonical_json(value: object) -> bytes:
    """JSON with sorted keys and no spaces: equal values have equal bytes."""
    return _JSON.encode(value)


def chain(previous_sha256: str, value: object) -> str:
    """The head after `value` was appended to a chain whose head was `previous_sha256`."""
    return sha256([previous_sha256, value])


def _kind_and_body(value: object) -> tuple[bytes, bytes]:
    match value:
        case None:
            return b"n", b""
        case bool():
            return b"b", b"1" if value else b"0"
        case str():
            return b"s", value.encode("utf-8", "surrogatepass")
        case bytes():
            return b"y", value
        case int():
            return b"i", b"%d" % value
        case Decimal():
            return b"d", _decimal(value)
        case Fraction():
            return b"q", b"%d/%d" % (value.numerator, value.denominator)
        case datetime():
            return b"t", format_instant(value).encode()
        case Mapping():
            if not all(isinstance(key, str) for key in value):
                raise TypeError("a mapping's keys must be text to have canonical bytes")
            parts = [canonical(key) + canonical(value[key]) for key in sorted(value)]
            return b"m", b"".join(parts)
        case Sequence():
            return b"l", b"".join(canonical(item) for item in value)
        case _:
            raise TypeError(f"{type(value).__name__} has no canonical bytes: {_ALLOWED}")


def _decimal(value: Decimal) -> bytes:
    if not value.is_finite():
        raise TypeError(f"{value} has no canonical bytes: it is not a number")
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return b"0" if text in ("-0", "") else text.encode()
