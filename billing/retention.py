"""The evidence that a bill stands on is held: as long as it can be disputed, it can be shown.

Put here: that everything a close stands on, or stood on, is still in the landing.
Not here: whether the bytes are what they were (`gpu-ledger landing verify` reads them all), or
which evidence there is (`reader`).

Nothing of ours deletes from a landing: its store has no way to. What was deleted otherwise is found
before the next document would stand on what is left, and turn what is missing into a credit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from billing.answers import answer_key
from billing.record import Record
from domain.billing_period import BillingPeriod
from domain.errors import EvidenceChanged
from warehouse.store import Store

Evidence = Mapping[str, Mapping[str, Collection[str]]]
"""Cluster → source → hashes of answers, as a close seals them."""


class EvidenceGone(EvidenceChanged):
    """Answers that a period stands on are not in the landing any more."""

    code = "SEAL-002"

    def __init__(
        self,
        location: str,
        period: BillingPeriod,
        gone: list[str],
        count: int,
        how: str = "are gone",
    ) -> None:
        super().__init__(
            where=f"{location}, period {period}",
            seen=f"{len(gone)} of the {count} answers that it stands on {how}, the first {gone[0]}",
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


def lost_evidence(
    location: str, record: Record, named_in: Callable[[BillingPeriod], Evidence]
) -> list[EvidenceGone]:
    """The closed periods that stand on answers which no manifest names any more.

    `named_in`: the answers that the manifests of a period name. The links between manifests do not
    show that the end of a chain was removed; the close sealed which answers there were.
    """
    found = []
    for name, close in sorted(record.ledger().closes().items()):
        period = BillingPeriod(name)
        stood_on = record.sealed(str(close.body["basis_sha256"]))["evidence"]
        named = named_in(period)
        gone = [
            digest
            for cluster_id, sources in stood_on.items()
            for source, digests in sources.items()
            for digest in digests
            if digest not in named.get(cluster_id, {}).get(source, ())
        ]
        if gone:
            count = len([*_digests(stood_on)])
            how = "are named by no manifest"
            found.append(EvidenceGone(location, period, sorted(gone), count, how))
    return found


def _digests(evidence: Mapping[str, Any]) -> Iterable[str]:
    return (digest for sources in evidence.values() for found in sources.values()
            for digest in found)  # fmt: skip
