"""The evidence that a bill stands on is held: as long as it can be disputed, it can be shown.

Put here: that everything a close stands on, or stood on, is still in the landing.
Not here: whether the bytes are what they were (`gpu-ledger landing verify` reads them all), or
which evidence there is (`reader`).

Nothing of ours deletes from a landing: its store has no way to. What was deleted otherwise is found
before the next document would stand on what is left, and turn what is missing into a credit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from billing.answers import answer_key
from domain.billing_period import BillingPeriod
from domain.errors import EvidenceChanged
from warehouse.store import Store

Evidence = Mapping[str, Mapping[str, Iterable[str]]]
"""Cluster → source → hashes of answers, as a close seals them."""


class EvidenceGone(EvidenceChanged):
    """Answers that a period stands on are not in the landing any more."""

    code = "SEAL-002"

    def __init__(self, location: str, period: BillingPeriod, gone: list[str], count: int) -> None:
        super().__init__(
            where=f"{location}, period {period}",
            seen=f"{len(gone)} of the {count} answers that it stands on are gone, "
            f"the first {gone[0]}",
            why="what was billed could not be shown to whoever disputes it, and counting what is "
            "left would give it back; nothing was recorded",
            remedy="restore landing/ from a backup, then run `gpu-ledger landing verify`",
        )


def require_held(landing: Store, period: BillingPeriod, *stood_on: Evidence) -> None:
    """Refuse when an answer of any of these is not there; its manifest alone proves nothing."""
    needed = {digest for evidence in stood_on for digest in _digests(evidence)}
    there = set(landing.list("objects/")) if needed else set()
    gone = sorted(digest for digest in needed if answer_key(digest) not in there)
    if gone:
        raise EvidenceGone(landing.location, period, gone, len(needed))


def _digests(evidence: Mapping[str, Any]) -> Iterable[str]:
    return (digest for sources in evidence.values() for found in sources.values()
            for digest in found)  # fmt: skip
