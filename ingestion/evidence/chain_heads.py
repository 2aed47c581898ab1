"""Heads of the manifest chains: the last manifest of each (cluster, source), by number and hash.

Put here: reading the heads of a landing, keeping those of the last check, and comparing.
Not here: the links inside a chain, which every manifest holds itself
(`ingestion.evidence.landing`).

A link proves every manifest but the last one: an edit of the newest manifest, or the removal of the
end of a chain, leaves all links whole. A head that was written down elsewhere proves the end, too.
Each check of a month keeps the heads that it saw; `gpu-ledger landing heads` prints them for a
source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from domain.decisions.rows import Source
from domain.identity import sha256_bytes
from ingestion.evidence.landing import ManifestChanged, chain_prefix
from warehouse.store import KeyNotAllowed, ObjectMissing, Store

KEPT = "landing-heads.json"
"""In the store of the record, which may be guarded by another identity than the landing."""

KEEP_TRIES_LIMIT = 50
"""Checks that end at one moment; each of them keeps heads that are at least as late."""

_MANIFEST = re.compile(r"manifests/([^/]+)/([^/]+)/([0-9]{10})\.json", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class ChainHead:
    """The last manifest of one chain."""

    cluster_id: str
    source: str
    sequence: int
    sha256: str

    @property
    def chain(self) -> tuple[str, str]:
        return self.cluster_id, self.source

    @property
    def key(self) -> str:
        return f"{chain_prefix(self.cluster_id, Source(self.source))}{self.sequence:010d}.json"


def heads_of(landing: Store) -> list[ChainHead]:
    """The present head of every chain, by cluster and source."""
    last: dict[tuple[str, str], tuple[int, str]] = {}
    for key in landing.list("manifests/"):
        if parts := _MANIFEST.fullmatch(key):
            last[parts[1], parts[2]] = (int(parts[3]), key)
    return [
        ChainHead(*chain, sequence, sha256_bytes(landing.read(key)))
        for chain, (sequence, key) in sorted(last.items())
    ]


def changed_since(
    landing: Store, heads: Iterable[ChainHead], seen_by: str
) -> list[ManifestChanged]:
    """Every head that its chain no longer has; chains may be longer since."""
    problems = []
    for head in heads:
        try:
            found = sha256_bytes(landing.read(head.key))
        except ObjectMissing:
            found = ""
        if found != head.sha256:
            now = f"its bytes hash to {found}" if found else "no such manifest"
            wrong = f"{now}; {seen_by} has {head.sha256} as the end of this chain"
            problems.append(ManifestChanged(landing.location, head.key, wrong))
    return problems


def kept_heads(record: Store) -> list[ChainHead]:
    """The heads that the last checks saw; none before the first check."""
    return _read(record)[1]


def require_kept_heads(landing: Store, record: Store) -> None:
    """Refuse a landing that lacks the end of a chain that an earlier check saw."""
    for problem in changed_since(landing, kept_heads(record), "the last check"):
        raise problem


def keep_heads(record: Store, heads: Iterable[ChainHead]) -> None:
    """Keep these heads where they are later than the kept ones."""
    new = {head.chain: head for head in heads}
    for _ in range(KEEP_TRIES_LIMIT):
        present, kept = _read(record)
        latest = {head.chain: head for head in kept}
        latest |= {
            chain: head
            for chain, head in new.items()
            if chain not in latest or latest[chain].sequence < head.sequence
        }
        body = heads_json(latest.values())
        if body == present or record.replace(KEPT, body, expected=present):
            return


def heads_json(heads: Iterable[ChainHead]) -> bytes:
    return (json.dumps([asdict(head) for head in sorted(heads)], indent=1) + "\n").encode()


def read_heads(body: bytes) -> list[ChainHead]:
    """The heads in the JSON of `gpu-ledger landing heads`; ValueError describes an invalid text."""
    try:
        entries = json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(entries, list):
        raise ValueError("it is not a JSON list")
    return [_head(entry) for entry in entries]


def _head(entry: object) -> ChainHead:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{str(entry)[:80]!r} is not an object")
    match [entry.get(name) for name in ("cluster_id", "source", "sequence", "sha256")]:
        case [str(cluster_id), str(source), int(sequence), str(digest)] if (
            0 < sequence < 10** 10 and _SHA256.fullmatch(digest)
        ):
            try:
                chain_prefix(cluster_id, Source(source))
            except KeyNotAllowed as cause:
                raise ValueError(cause.seen) from None
            return ChainHead(cluster_id, source, sequence, digest)
        case values:
            raise ValueError(f"{str(values)[:200]} is not a cluster, source, sequence and sha256")


def _read(record: Store) -> tuple[bytes | None, list[ChainHead]]:
    try:
        body = record.read(KEPT)
    except ObjectMissing:
        return None, []
    try:
        return body, read_heads(body)
    except ValueError as cause:
        wrong = f"not a list of chain heads: {cause}"
        raise ManifestChanged(record.location, KEPT, wrong) from None
