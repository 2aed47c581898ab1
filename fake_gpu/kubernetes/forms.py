"""Small forms that every Kubernetes document uses: times, quantities, metadata.

Put here: how one value is written, and read back.
Not here: any whole object.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from domain.identity import sha256

Document = dict[str, Any]

_DECIMAL_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@lru_cache(maxsize=1 << 15)
def time_text(second: int) -> str:
    """A second of the model as the API server writes it."""
    return f"{datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()}Z"


def quantity(count: int) -> str:
    """A whole number as the API server writes it back: canonical, so 1000 becomes `1k`."""
    power = 0
    while count and count % 1000 == 0 and power < len(_DECIMAL_SUFFIXES) - 1:
        count //= 1000
        power += 1
    return f"{count}{_DECIMAL_SUFFIXES[power]}"


def byte_quantity(count: int) -> str:
    """A number of bytes as the API server writes it back: 549755813888 becomes `512Gi`."""
    power = 0
    while count and count % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        count //= 1024
        power += 1
    return f"{count}{_BINARY_SUFFIXES[power]}"


def quantities(counts: Mapping[str, int]) -> dict[str, str]:
    return {name: quantity(counts[name]) for name in sorted(counts)}


def metadata(
    *,
    name: str,
    uid: str,
    created_at: int,
    resource_version: int,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: list[Document] | None = None,
    generation: int = 0,
) -> Document:
    """The `metadata` of an object; empty parts are left out, as the server leaves them out.

    `generation` counts the versions of the spec, of kinds that count them.
    """
    parts: Document = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(resource_version),
        "generation": generation,
        "creationTimestamp": time_text(created_at),
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": owners or [],
    }
    return {key: value for key, value in parts.items() if value}


def derived_uid(*parts: str) -> str:
    """A UID for an object that the model does not name: the same for the same parts."""
    digits = sha256(list(parts))
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"
