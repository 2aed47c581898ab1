"""The landed responses behind a bill: their hashes and their bytes.

Put here: the hashes of a period, reading a response, the check that all responses exist.
Not here: landing them (`ingestion.landing`), or decoding.

No code of gpu-ledger deletes from a landing. A response that was deleted in another way is found
before the next document: a recount without it would turn the missing use into a credit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import zstandard

from billing.record import Record
from billing.sealing import require_seal
from domain.billing_period import BillingPeriod
from domain.errors import EvidenceChanged
from warehouse.attempt_hours import attempt_hours, hours_in
from warehouse.store import Store, reading

Evidence = Mapping[str, Mapping[str, Collection[str]]]
"""Cluster → source → hashes of responses, as a close seals them."""


class EvidenceMissing(EvidenceChanged):
    """Responses of the basis of a period are missing in the landing."""

    code = "LAND-001"

    def __init__(
        self,
        location: str,
        period: BillingPeriod,
        gone: list[str],
        count: int,
        how: str = "are missing",
    ) -> None:
        super().__init__(
            where=f"{location}, period {period}",
            seen=f"{len(gone)} of the {count} responses of its basis {how}, the first is {gone[0]}",
            why="the bill could not be proved, and a recount of the remaining responses would "
            "credit it; nothing was recorded",
            remedy="restore landing/ from a backup, then run `gpu-ledger landing verify`",
        )


def require_held(landing: Store, period: BillingPeriod, *evidence: Evidence) -> None:
    """Refuse if a response of this evidence is missing; a manifest alone proves nothing."""
    needed = {digest for each in evidence for digest in _digests(each)}
    there = set(landing.list("objects/")) if needed else set()
    gone = sorted(digest for digest in needed if response_key(digest) not in there)
    if gone:
        raise EvidenceMissing(landing.location, period, gone, len(needed))


def lost_evidence(
    location: str, record: Record, named_in: Callable[[BillingPeriod], Evidence]
) -> list[EvidenceMissing]:
    """The closed periods whose basis has responses that no manifest names.

    `named_in`: the responses in the manifests of a period. The links between manifests do not show
    that the end of a chain was removed; the sealed list of responses does.
    """
    found = []
    for name, close in sorted(record.ledger().closes().items()):
        period = BillingPeriod(name)
        basis_evidence = record.sealed(str(close.body["basis_sha256"]))["evidence"]
        named = named_in(period)
        gone = [
            digest
            for cluster_id, sources in basis_evidence.items()
            for source, digests in sources.items()
            for digest in digests
            if digest not in named.get(cluster_id, {}).get(source, ())
        ]
        if gone:
            count = len([*_digests(basis_evidence)])
            how = "are not in any manifest"
            found.append(EvidenceMissing(location, period, sorted(gone), count, how))
    return found


def _digests(evidence: Mapping[str, Any]) -> Iterable[str]:
    return (digest for sources in evidence.values() for found in sources.values()
            for digest in found)  # fmt: skip


# Hashes of a period -------------------------------------------------------------------------------


def read_evidence(landing: Store, period: BillingPeriod) -> dict[str, dict[str, list[str]]]:
    """Cluster → source → hashes of all responses about hours of the period, sorted.

    The hash of an attempt would depend on the attempts before it.
    """
    hashes: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for hour in hours_in(attempt_hours(landing), period.interval):
        if hour.usable:
            hashes[hour.cluster_id][hour.source].update(hour.row["answer_sha256s"])
    return {
        cluster: {source: sorted(hashes[cluster][source]) for source in sorted(hashes[cluster])}
        for cluster in sorted(hashes)
    }


# One response -------------------------------------------------------------------------------------

MENTIONS_LISTED = 3
"""Offsets shown per response; a response of a month names a pod thousands of times."""
NOT_NAMED = "none"


@dataclass(frozen=True, slots=True)
class ResponseMentions:
    """The size of a response, and the places where it names a text."""

    byte_count: int
    mentions: str


def response_key(digest: str) -> str:
    """The key of the response with this hash."""
    return f"objects/{digest[:2]}/{digest}.zst"


def read_response(landing: Store, digest: str) -> bytes:
    """The bytes of a response; raises SealBroken if they have another hash."""
    key = response_key(digest)
    stored = landing.read(key)
    with reading(
        f"{landing.location}/{key}",
        "`gpu-ledger landing verify` names the command that queries it again",
        zstandard.ZstdError,
    ):
        body = zstandard.ZstdDecompressor().decompressobj().decompress(stored)
    return require_seal(f"{landing.location}/{key}", body, digest)


def find_in_response(landing: Store, digest: str, text: str) -> ResponseMentions:
    """The number of times that a response contains a text, and the first places."""
    body = read_response(landing, digest)
    wanted = text.encode()
    offsets: list[str] = []
    start = body.find(wanted)
    while start >= 0 and len(offsets) < MENTIONS_LISTED:
        offsets.append(str(start))
        start = body.find(wanted, start + 1)
    count = body.count(wanted)
    return ResponseMentions(
        len(body), f"{count}, at byte {', '.join(offsets)}" if count else NOT_NAMED
    )
