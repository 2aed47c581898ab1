"""Looking into landed answers: the bytes under a hash, and where they name something.

Put here: reading one answer, its hash checked, and finding a text in it.
Not here: landing (`ingestion.evidence.landing`), which billing must not import, or decoding.
"""

from __future__ import annotations

from dataclasses import dataclass

from billing.sealing import require_seal
from warehouse.store import Store, reading

MENTIONS_LISTED = 3
"""Offsets shown per answer; a pod of a month is named thousands of times."""
NOT_NAMED = "none"


@dataclass(frozen=True, slots=True)
class Found:
    """What an answer is, and where it names a text."""

    byte_count: int
    mentions: str


def answer_key(digest: str) -> str:
    """Where the answer with this hash lies."""
    return f"objects/{digest[:2]}/{digest}.zst"


def read_answer(landing: Store, digest: str) -> bytes:
    """The bytes that were answered; raises when they do not have the hash that is their name."""
    import zstandard

    key = answer_key(digest)
    stored = landing.read(key)
    with reading(
        f"{landing.location}/{key}",
        "`gpu-ledger landing verify` names the command that asks again for this answer",
        zstandard.ZstdError,
    ):
        body = zstandard.ZstdDecompressor().decompressobj().decompress(stored)
    return require_seal(f"{landing.location}/{key}", body, digest)


def find_in_answer(landing: Store, digest: str, text: str) -> Found:
    """How often an answer names a text, and at which bytes."""
    body = read_answer(landing, digest)
    wanted = text.encode()
    offsets: list[str] = []
    start = body.find(wanted)
    while start >= 0 and len(offsets) < MENTIONS_LISTED:
        offsets.append(str(start))
        start = body.find(wanted, start + 1)
    count = body.count(wanted)
    return Found(len(body), f"{count}, at byte {', '.join(offsets)}" if count else NOT_NAMED)
