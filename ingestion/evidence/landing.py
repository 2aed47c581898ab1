"""The landing: byte-exact responses by their hash, and one chain of manifests per source.

Put here: landing bodies, appending attempts, reading both with their hashes checked.
Not here: the content of manifests (`warehouse.manifest`) or bodies (`ingestion.thanos`,
`ingestion.kubernetes`).

    objects/<aa>/<sha256>.zst                         named by the hash of the *uncompressed* bytes
    manifests/<cluster_id>/<source>/<sequence>.json   conditional create; chained by previous_sha256
    damaged/<sha256>.<sha256 of the found bytes>      bytes that were found under another hash

Bodies are stored before the manifest that names them. A crash in between leaves bytes without a
manifest, and the hour is queried again; it never leaves a manifest without bytes.

An object contains the bytes of its hash. If a disk or a person changed them, and the same response
arrives again, the changed bytes are first kept aside, and then replaced by the right ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import zstandard

from domain.decisions.rows import Source
from domain.errors import EvidenceChanged, LedgerError, TemporarilyUnavailable
from domain.identity import sha256_bytes
from warehouse.manifest import Attempt, AttemptDraft
from warehouse.store import UNREADABLE, KeyNotAllowed, ObjectMissing, Store, validate_key

BODY_BYTES_LIMIT = 1 << 30
"""1 GiB uncompressed: the largest body that ACM itself accepts; a larger one is an attack."""

ZSTD_LEVEL = 1
"""Level 1 compresses to a 14th to a 47th; level 9 saves 10 to 20 % more, in ten times the time."""

KEEP_TRIES_LIMIT = 5
"""Tries to store one body; after a damaged one was replaced, the body is compared again."""

APPEND_TRIES_LIMIT = 50
"""Writers of one chain at one moment; far more than a cluster has, and small enough to end."""


class BodyChanged(EvidenceChanged):
    """The bytes under a hash are not the bytes that were landed."""

    code = "LAND-001"

    def __init__(self, location: str, key: str, seen: str, pull_command: str = "") -> None:
        self._told = (location, key, seen)
        how = f"`{pull_command}`" if pull_command else "see `gpu-ledger landing verify`"
        super().__init__(
            where=f"{location}/{key}",
            seen=seen,
            why="invoices are based on these bytes; changed evidence proves nothing",
            remedy=f"restore it from a backup, or pull again, {how}: the same response repairs it",
        )

    def with_attempt(self, attempt: Attempt) -> BodyChanged:
        """The same error, with the command that pulls this attempt's hours again."""
        window = attempt.window
        hours = f"{window.started_at:%Y-%m-%dT%H}..{window.ended_at:%Y-%m-%dT%H}"
        whose = f"--cluster {attempt.cluster_id} --source {attempt.source.value}"
        return BodyChanged(
            *self._told, pull_command=f"gpu-ledger pull --hours {hours} {whose} --all"
        )


class ManifestChanged(EvidenceChanged):
    """A manifest does not follow from the one before it."""

    code = "LAND-001"

    def __init__(self, location: str, key: str, seen: str) -> None:
        super().__init__(
            where=f"{location}/{key}",
            seen=seen,
            why="the chain shows that no attempt was removed, added or edited afterwards",
            remedy="restore this file from a backup, then run `gpu-ledger landing verify`",
        )


class ChainBusy(TemporarilyUnavailable):
    """Too many writers append to one chain at once."""

    code = "LOCK-001"

    def __init__(self, location: str, chain: str) -> None:
        super().__init__(
            where=f"{location}/{chain}",
            seen=f"{APPEND_TRIES_LIMIT} times in a row another writer took the next sequence",
            why="the responses are landed, but no manifest names them yet",
            remedy="find out which other deployment writes to this landing, then pull again",
        )


WRITERS = 8
"""Bodies written at once: file systems combine syncs of the same moment."""

LATEST_LIMIT = 50
"""Attempts that one pull searches for the hour before it: two days of hourly attempts."""

Problem = EvidenceChanged | TemporarilyUnavailable


@dataclass(frozen=True, slots=True)
class LandedBody:
    """The result of landing a body."""

    sha256: str
    byte_count: int
    stored_byte_count: int


@dataclass(frozen=True, slots=True)
class PackedBody:
    """A compressed body, small enough that many of them fit into memory."""

    landed: LandedBody
    stored: bytes


def pack_body(body: bytes) -> PackedBody:
    """Hash and compress a body."""
    compressed = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(body)
    stored = bytes(memoryview(compressed))  # `compressed` itself occupies as much memory as `body`
    return PackedBody(LandedBody(sha256_bytes(body), len(body), len(stored)), stored)


@dataclass(frozen=True, slots=True)
class LandingReport:
    """The result of `verify`: counts, and every problem."""

    attempt_count: int
    body_count: int
    problems: tuple[LedgerError, ...] = ()
    attempts: tuple[Attempt, ...] = field(default=(), repr=False)
    set_aside: tuple[str, ...] = field(default=())  # wrong bytes in the place of bodies


class Landing:
    """Evidence in a store. Append-only: no intact object is deleted or overwritten."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._attempts: dict[str, Attempt] = {}  # by key: manifests never change
        self._bodies: set[str] = set()  # those that this process knows to be durable

    def land_body(self, body: bytes) -> LandedBody:
        """Store a body; the same bytes are stored once."""
        one = pack_body(body)
        self.land([one])
        return one.landed

    def land(self, bodies: Iterable[PackedBody]) -> int:
        """Store bodies; the number of stored bodies that were damaged and are repaired.

        Several at once: a disk that syncs for one can sync for all.
        """
        fresh = {one.landed.sha256: one for one in bodies if one.landed.sha256 not in self._bodies}
        if len(fresh) <= 1:
            return sum(map(self._keep, fresh.values()))
        with ThreadPoolExecutor(max_workers=WRITERS) as pool:
            return sum(pool.map(self._keep, fresh.values()))

    def _keep(self, body: PackedBody) -> bool:
        """Store a body; whether it replaced other bytes under its name."""
        digest, repaired = body.landed.sha256, False
        key = body_key(digest)
        for _ in range(KEEP_TRIES_LIMIT):
            if self.store.create(key, body.stored) or (damaged := self._damaged_body(body)) is None:
                self._bodies.add(digest)
                return repaired
            # The changed bytes are kept before they are replaced: an interrupted repair is
            # repeated.
            self.store.create(damaged_key(digest, damaged), damaged)
            repaired = self.store.replace(key, body.stored, expected=damaged) or repaired
        raise BodyChanged(self.store.location, key, f"changed {KEEP_TRIES_LIMIT} times in a row")

    def _damaged_body(self, body: PackedBody) -> bytes | None:
        """The bytes under the name of a body if they are not the body; else None."""
        key = body_key(body.landed.sha256)
        found = self.store.read(key)
        if found != body.stored:
            try:
                self._unpacked(key, body.landed.sha256, found)
            except BodyChanged:
                return found
        return None

    def read_body(self, digest: str) -> bytes:
        """The bytes under a hash; raises BodyChanged when they are not these bytes."""
        key = body_key(digest)
        return self._unpacked(key, digest, self.store.read(key))

    def _unpacked(self, key: str, digest: str, stored: bytes) -> bytes:
        try:
            size = zstandard.frame_content_size(stored)
            if not 0 <= size <= BODY_BYTES_LIMIT:
                raise BodyChanged(
                    self.store.location,
                    key,
                    f"it claims {size} bytes, at most {BODY_BYTES_LIMIT} are landed",
                )
            body = zstandard.ZstdDecompressor().decompress(stored)
        except zstandard.ZstdError as cause:
            raise BodyChanged(self.store.location, key, f"not readable: {cause}") from None
        if (found := sha256_bytes(body)) != digest:
            raise BodyChanged(
                self.store.location, key, f"its bytes hash to {found}, its name says {digest}"
            )
        return body

    def append_attempt(self, draft: AttemptDraft) -> Attempt:
        """Append a manifest to the chain of (cluster, source)."""
        chain = chain_prefix(draft.cluster_id, draft.source)
        for _ in range(APPEND_TRIES_LIMIT):
            keys = self.store.list(chain)
            head = self._attempt(keys[-1]) if keys else None
            sequence = head.sequence + 1 if head else 1
            attempt, body = draft.written(sequence, head.attempt_id if head else "")
            key = f"{chain}{sequence:010d}.json"
            # The same bytes are our own: the response to an earlier try was lost.
            if self.store.create(key, body) or self.store.read(key) == body:
                self._attempts[key] = attempt
                return attempt
        raise ChainBusy(self.store.location, chain)

    def attempts(
        self, cluster_id: str | None = None, source: Source | None = None
    ) -> list[Attempt]:
        """All attempts, by cluster, source and sequence."""
        prefix = f"manifests/{validate_key(cluster_id)}/" if cluster_id else "manifests/"
        found = [self._attempt(key) for key in self.store.list(prefix)]
        return [attempt for attempt in found if source in (None, attempt.source)]

    def latest_attempts(
        self, cluster_id: str, source: Source, limit: int = LATEST_LIMIT
    ) -> Iterator[Attempt]:
        """The latest attempts of one chain, newest first."""
        for key in reversed(self.store.list(chain_prefix(cluster_id, source))[-limit:]):
            yield self._attempt(key)

    def verify(self) -> LandingReport:
        """Read everything again: every chain link, every body, and bodies without a manifest."""
        attempts, problems = self._verify_chains()
        # A response to the latest attempt is the most likely to be repeated.
        named_by = {digest: attempt for attempt in attempts for digest in attempt.answer_sha256s}
        referenced = set(named_by)
        present = {
            key.rpartition("/")[2].removesuffix(".zst") for key in self.store.list("objects/")
        }
        for digest in sorted(referenced | present):
            try:
                self.read_body(digest)
            except BodyChanged as problem:
                attempt = named_by.get(digest)
                problems.append(problem.with_attempt(attempt) if attempt else problem)
            except (EvidenceChanged, TemporarilyUnavailable) as problem:
                problems.append(problem)
        return LandingReport(
            attempt_count=len(attempts),
            body_count=len(referenced | present),
            problems=tuple(problems),
            attempts=tuple(attempts),
            set_aside=tuple(self.store.list("damaged/")),
        )

    def _verify_chains(self) -> tuple[list[Attempt], list[Problem]]:
        attempts: list[Attempt] = []
        problems: list[Problem] = []
        chains: dict[str, list[str]] = {}
        for key in self.store.list("manifests/"):
            chains.setdefault(key.rpartition("/")[0], []).append(key)
        for chain, keys in chains.items():
            head: Attempt | None = None
            for key in keys:
                try:
                    attempt = self._read_attempt(key)
                except (EvidenceChanged, TemporarilyUnavailable) as problem:
                    problems.append(problem)
                    head = None
                    continue
                problems += self._link_problems(chain, attempt, head, first=key == keys[0])
                attempts.append(attempt)
                head = attempt
        return attempts, problems

    def _link_problems(
        self, chain: str, attempt: Attempt, head: Attempt | None, first: bool
    ) -> list[Problem]:
        """A link is wrong where a manifest is missing, or where the one before was changed."""
        before = f"{chain}/{attempt.sequence - 1:010d}.json"
        if head is None:
            lost = attempt.sequence > 1 if first else False  # unreadable ones are named already
            return [ObjectMissing(self.store.location, before)] if lost else []
        if attempt.sequence != head.sequence + 1:
            return [ObjectMissing(self.store.location, before)]
        if attempt.previous_sha256 != head.attempt_id:
            seen = (
                f"its bytes hash to {head.attempt_id}, "
                f"the manifest written after it says {attempt.previous_sha256}"
            )
            return [ManifestChanged(self.store.location, before, seen)]
        return []

    def _attempt(self, key: str) -> Attempt:
        if key not in self._attempts:
            self._attempts[key] = self._read_attempt(key)
        return self._attempts[key]

    def _read_attempt(self, key: str) -> Attempt:
        body = self.store.read(key)
        try:
            attempt = Attempt.from_bytes(body)
            chain = chain_prefix(attempt.cluster_id, attempt.source)
            place = f"{chain}{attempt.sequence:010d}.json"
        except (*UNREADABLE, KeyNotAllowed) as cause:
            raise ManifestChanged(
                self.store.location, key, f"not a manifest as it was written: {cause}"
            ) from None
        if place != key:
            raise ManifestChanged(self.store.location, key, f"its content belongs at {place}")
        return attempt


def body_key(digest: str) -> str:
    return validate_key(f"objects/{digest[:2]}/{digest}.zst")


def damaged_key(digest: str, found: bytes) -> str:
    return validate_key(f"damaged/{digest}.{sha256_bytes(found)}")


def chain_prefix(cluster_id: str, source: Source) -> str:
    return validate_key(f"manifests/{cluster_id}/{source.value}") + "/"
