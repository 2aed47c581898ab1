"""JSON from a server: the errors of decoding it, and the refusal of repeated keys.

Put here: rules for JSON of any server.
Not here: the parts of a certain response (`ingestion.thanos.response`, `clients.kubernetes`).

JSON parsers keep the last of two equal keys and drop the first. A proxy or a fault that repeats a
key would thus exchange a label or a value without any trace, so such a text is invalid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

NOT_JSON = (ValueError, RecursionError)
"""Invalid JSON, text that is not UTF-8, an unexpected shape; and objects nested too deeply."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LABELS = msgspec.json.Decoder(dict[str, str])
_encode = msgspec.json.Encoder().encode


class RepeatedKey(ValueError):
    """An object of a JSON text has a key twice."""

    def __init__(self) -> None:
        super().__init__("a key occurs twice in one JSON object")


def members(text: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of a JSON object without spaces between its parts; raises NOT_JSON."""
    found = _MEMBERS.decode(text)
    commas = max(len(found) - 1, 0)
    if len(text) != 2 + commas + sum(len(_encode(k)) + 1 + len(v) for k, v in found.items()):
        raise RepeatedKey
    return found


def labels_of(text: bytes) -> dict[str, str]:
    """A JSON object of strings; raises NOT_JSON."""
    labels: dict[str, str] = _LABELS.decode(text)
    # Encoded, a text is never longer than it was: with a member less it is shorter.
    if len(_encode(labels)) != len(text):
        unique_json(text)
    return labels


def unique_json(text: bytes) -> object:
    """The value of any JSON text, slowly; raises NOT_JSON, also where an object has a key twice."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RepeatedKey
        found[name] = value
    return found
