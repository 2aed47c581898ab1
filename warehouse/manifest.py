"""The manifest of an attempt: the queries, their responses, and the outcome of each hour.

Put here: the values of one attempt, and their JSON, written and read.
Not here: where manifests are kept and chained (`ingestion.evidence.landing`), or coverage status
(`quality`): an outcome is a result of the protocol, and does not say whether an hour may be billed.

Ingestion writes manifests, and a build reads them, so both use this module.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any

import msgspec

from domain.decisions.rows import Source
from domain.identity import canonical_json, sha256_bytes
from domain.interval import HOUR, Interval, format_instant

MANIFEST_VERSION = 1
WINDOW_HOURS_LIMIT = 24
"""A day per query: the response of a large cluster stays under the memory limit."""

_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{64})?$")]


@cache
def code_version_of_manifests() -> str:
    """The version that every manifest names. It is read from files, so only once."""
    return importlib.metadata.version("gpu-ledger")


class Outcome(StrEnum):
    """The result of the protocol for one hour of an attempt; worse ones come later."""

    OK = "ok"  # complete, with its sentinels
    WARNED = "warned"  # with warnings: it may be incomplete
    EMPTY = "empty"  # without any sentinel: nothing was seen, which is not "no usage"
    DEGRADED = "degraded"  # some queries failed, or less than an earlier attempt returned
    TRUNCATED = "truncated"  # a response ended early, or a limit cut it
    REFUSED = "refused"  # refused by the source or by our limit: a retry changes nothing
    FAILED = "failed"  # no usable response: unreachable, timed out, not the protocol


USABLE_OUTCOMES = frozenset(Outcome) - {Outcome.REFUSED, Outcome.FAILED}
"""Outcomes after which there may be rows to read."""

SEVERITY = {outcome: place for place, outcome in enumerate(Outcome)}


def worst(outcomes: list[Outcome]) -> Outcome:
    """The worst of several outcomes; OK when there are none."""
    return max(outcomes, key=SEVERITY.__getitem__, default=Outcome.OK)


@dataclass(frozen=True, slots=True)
class QueryResponse:
    """One response, or its absence: the query and the hash of the bytes."""

    ask: str
    query: str
    status: int  # HTTP status; 0 without a response
    sha256: _Sha256  # "" without bytes
    byte_count: int
    stored_byte_count: int
    warnings: tuple[str, ...] = ()
    outcome: Outcome = Outcome.OK
    reason: str = ""
    window: Interval | None = None  # of a query that was split, the part that this one covers
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of an attempt: outcome, reason, counts."""

    hour: datetime
    outcome: Outcome
    reason: str = ""
    series_count: int = 0
    sample_count: int = 0
    by_metric: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # series, samples
    facts: Mapping[str, int] = field(default_factory=dict)  # named counts


@dataclass(frozen=True, slots=True)
class Sampling:
    """How often the source samples, as decided for the window; landed, because it changes."""

    sample_interval_seconds: int
    scrape_interval_seconds: int


@dataclass(frozen=True, slots=True)
class AttemptDraft:
    """An attempt before it has a place in its chain."""

    cluster_id: str
    source: Source
    asked_at: datetime
    answered_at: datetime
    window: Interval
    code_version: str
    sampling: Sampling
    answers: tuple[QueryResponse, ...]
    hours: tuple[Hour, ...]
    facts: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # needed to decode again

    def noting(self, **counts: int) -> AttemptDraft:
        """The same with further facts of the whole attempt; a count of 0 is left out."""
        more = {name: count for name, count in counts.items() if count}
        return replace(self, facts=dict(sorted((dict(self.facts) | more).items())))

    def at(self, sequence: int, previous_sha256: str) -> Attempt:
        return self.written(sequence, previous_sha256)[0]

    def written(self, sequence: int, previous_sha256: str) -> tuple[Attempt, bytes]:
        """The attempt at its place, and the bytes of its manifest."""
        body = _manifest_bytes(self, sequence, previous_sha256)
        return Attempt(self, sequence, previous_sha256, sha256_bytes(body)), body


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt in its chain; `attempt_id` is the sha256 of its manifest's bytes."""

    draft: AttemptDraft
    sequence: int
    previous_sha256: str
    attempt_id: str

    @property
    def cluster_id(self) -> str:
        return self.draft.cluster_id

    @property
    def source(self) -> Source:
        return self.draft.source

    @property
    def window(self) -> Interval:
        return self.draft.window

    @property
    def answers(self) -> tuple[QueryResponse, ...]:
        return self.draft.answers

    @property
    def hours(self) -> tuple[Hour, ...]:
        return self.draft.hours

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of its hours."""
        return worst([hour.outcome for hour in self.hours])

    @property
    def answer_sha256s(self) -> tuple[str, ...]:
        return tuple(sorted({answer.sha256 for answer in self.answers if answer.sha256}))

    @property
    def warning_count(self) -> int:
        return sum(len(answer.warnings) for answer in self.answers)

    def to_bytes(self) -> bytes:
        return _manifest_bytes(self.draft, self.sequence, self.previous_sha256)

    @classmethod
    def from_bytes(cls, body: bytes) -> Attempt:
        """The attempt of a manifest; raises ValueError or BadInput for any other bytes."""
        value = msgspec.json.decode(body, type=dict[str, Any])
        link = msgspec.convert(value, _Link)
        for part in (value, *value["answers"]):
            if window := part.get("window"):
                part["window"] = {"started_at": window["from"], "ended_at": window["until"]}
        draft = msgspec.convert(value, AttemptDraft)
        attempt = cls(draft, link.sequence, link.previous_sha256, sha256_bytes(body))
        if attempt.to_bytes() != body:
            raise ValueError("the same values are written in another way")
        return attempt


class _Link(msgspec.Struct):
    """The place of a manifest in its chain."""

    sequence: int
    previous_sha256: _Sha256


def _manifest_bytes(draft: AttemptDraft, sequence: int, previous_sha256: str) -> bytes:
    value: dict[str, Any] = msgspec.to_builtins(draft)
    for part in (value, *value["answers"]):
        if window := part.pop("window"):
            part["window"] = {"from": window["started_at"], "until": window["ended_at"]}
    chain = {"sequence": sequence, "previous_sha256": previous_sha256}
    return canonical_json({"version": MANIFEST_VERSION, **chain, **value}) + b"\n"


def whole_hours(window: Interval) -> list[datetime]:
    """The hours of a window of whole hours, 1 to 24 of them; ValueError for any other window."""
    hours = list(window.hours())
    if not hours or hours[0] != window.started_at or hours[-1] + HOUR != window.ended_at:
        started_at, ended_at = format_instant(window.started_at), format_instant(window.ended_at)
        raise ValueError(f"{started_at} to {ended_at} are not whole hours")
    if len(hours) > WINDOW_HOURS_LIMIT:
        raise ValueError(f"{len(hours)} hours, at most {WINDOW_HOURS_LIMIT} in one attempt")
    return hours
