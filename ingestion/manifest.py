"""The manifest of an attempt: what was asked, what was answered, hour by hour.

Put here: the values of one attempt and their canonical JSON, both ways.
Not here: where manifests are kept and chained (`ingestion.landing`), or any verdict on them
(`quality`): an outcome says what the protocol said, and counts; not whether an hour may be billed.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec

from domain.decisions.rows import Source
from domain.identity import sha256_bytes
from domain.interval import HOUR, Interval, format_instant, parse_instant

_SHA256_OR_NONE = re.compile(r"(?:[0-9a-f]{64})?", re.ASCII)
_sorted = msgspec.json.Encoder(order="sorted")

MANIFEST_VERSION = 1
WINDOW_HOURS_LIMIT = 24
"""A day per request: a body of a large cluster stays under the memory limit, a month is 31 asks."""


@cache
def version_of_this_code() -> str:
    """As every manifest names it; looking it up reads files."""
    return importlib.metadata.version("gpu-ledger")


class Outcome(StrEnum):
    """What the protocol said about one hour of an attempt; worse ones come later."""

    OK = "ok"  # answered, whole, with its sentinels
    WARNED = "warned"  # answered with warnings: it may be half of the truth
    EMPTY = "empty"  # answered without any sentinel: nothing was seen, which is not "no usage"
    DEGRADED = "degraded"  # some asks answered and some not, or less than was there before
    TRUNCATED = "truncated"  # an answer ended early, or a limit cut it
    REFUSED = "refused"  # the source, or our own limit, said no: asking again changes nothing
    FAILED = "failed"  # no usable answer: unreachable, timed out, not the protocol


SEVERITY = {outcome: place for place, outcome in enumerate(Outcome)}


def worst(outcomes: list[Outcome]) -> Outcome:
    """The worst of several outcomes; OK when there are none."""
    return max(outcomes, key=SEVERITY.__getitem__, default=Outcome.OK)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer (or its absence): the ask's name, the query, and the bytes by their hash."""

    ask: str
    query: str
    status: int  # HTTP status; 0 when no answer came
    sha256: str  # "" when no bytes came
    byte_count: int
    stored_byte_count: int
    warnings: tuple[str, ...] = ()
    outcome: Outcome = Outcome.OK
    reason: str = ""
    window: Interval | None = None  # when an ask was split, the part that this answer covers
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Hour:
    """What an attempt says about one hour: outcome, reason, counts."""

    hour: datetime
    outcome: Outcome
    reason: str = ""
    series_count: int = 0
    sample_count: int = 0
    by_metric: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # series, samples
    facts: Mapping[str, int] = field(default_factory=dict)  # named counts; never a check


@dataclass(frozen=True, slots=True)
class Sampling:
    """How often the source samples, as configured for the window; landed, because it changes."""

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
    answers: tuple[Answer, ...]
    hours: tuple[Hour, ...]
    facts: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # needed to read it again

    def noting(self, **counts: int) -> AttemptDraft:
        """The same with further facts of the whole attempt; what is 0 is none."""
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
    def answers(self) -> tuple[Answer, ...]:
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
        value = json.loads(body)
        attempt = cls(
            _draft(value), value["sequence"], value["previous_sha256"], sha256_bytes(body)
        )
        if attempt.to_bytes() != body:
            raise ValueError("the same values are written in another way")
        return attempt


def whole_hours(window: Interval) -> list[datetime]:
    """The hours of a window of whole hours, 1 to 24 of them; ValueError for any other window."""
    hours = list(window.hours())
    if not hours or hours[0] != window.started_at or hours[-1] + HOUR != window.ended_at:
        started_at, ended_at = format_instant(window.started_at), format_instant(window.ended_at)
        raise ValueError(f"{started_at} to {ended_at} are not whole hours")
    if len(hours) > WINDOW_HOURS_LIMIT:
        raise ValueError(f"{len(hours)} hours, at most {WINDOW_HOURS_LIMIT} in one attempt")
    return hours


def _manifest_bytes(draft: AttemptDraft, sequence: int, previous_sha256: str) -> bytes:
    value = {
        "version": MANIFEST_VERSION,
        "cluster_id": draft.cluster_id,
        "source": draft.source.value,
        "sequence": sequence,
        "previous_sha256": previous_sha256,
        "asked_at": format_instant(draft.asked_at),
        "answered_at": format_instant(draft.answered_at),
        "window": _window_value(draft.window),
        "code_version": draft.code_version,
        "sampling": {
            "sample_interval_seconds": draft.sampling.sample_interval_seconds,
            "scrape_interval_seconds": draft.sampling.scrape_interval_seconds,
        },
        "answers": [_answer_value(answer) for answer in draft.answers],
        "hours": [_hour_value(hour) for hour in draft.hours],
        "facts": dict(draft.facts),
        "settings": {name: list(texts) for name, texts in draft.settings.items()},
    }
    return _canonical(value) + b"\n"


def _canonical(value: dict[str, Any]) -> bytes:
    """With sorted keys, without blanks, and letters as they are.

    msgspec writes the same bytes in a tenth of the time, but no half of a letter, as a label may
    have one.
    """
    try:
        return _sorted.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass")


def _window_value(window: Interval) -> dict[str, str]:
    return {"from": format_instant(window.started_at), "until": format_instant(window.ended_at)}


def _answer_value(answer: Answer) -> dict[str, Any]:
    value: dict[str, Any] = {
        "ask": answer.ask,
        "query": answer.query,
        "status": answer.status,
        "sha256": answer.sha256,
        "byte_count": answer.byte_count,
        "stored_byte_count": answer.stored_byte_count,
        "warnings": list(answer.warnings),
        "outcome": answer.outcome.value,
        "reason": answer.reason,
        "tries": answer.tries,
    }
    if answer.window is not None:
        value["window"] = _window_value(answer.window)
    return value


def _hour_value(hour: Hour) -> dict[str, Any]:
    return {
        "hour": format_instant(hour.hour),
        "outcome": hour.outcome.value,
        "reason": hour.reason,
        "series_count": hour.series_count,
        "sample_count": hour.sample_count,
        "by_metric": {metric: list(counts) for metric, counts in hour.by_metric.items()},
        "facts": dict(hour.facts),
    }


def _draft(value: dict[str, Any]) -> AttemptDraft:
    sampling = value["sampling"]
    return AttemptDraft(
        cluster_id=value["cluster_id"],
        source=Source(value["source"]),
        asked_at=parse_instant(value["asked_at"]),
        answered_at=parse_instant(value["answered_at"]),
        window=_window(value["window"]),
        code_version=value["code_version"],
        sampling=Sampling(sampling["sample_interval_seconds"], sampling["scrape_interval_seconds"]),
        answers=tuple(_answer(item) for item in value["answers"]),
        hours=tuple(_hour(item) for item in value["hours"]),
        facts=value["facts"],
        settings={name: tuple(texts) for name, texts in value["settings"].items()},
    )


def _window(value: dict[str, str]) -> Interval:
    return Interval(parse_instant(value["from"]), parse_instant(value["until"]))


def _digest(value: object) -> str:
    """The hash of an answer; empty where no bytes came."""
    if not isinstance(value, str) or not _SHA256_OR_NONE.fullmatch(value):
        raise ValueError(f"{str(value)[:80]!r} is not a SHA-256")
    return value


def _answer(value: dict[str, Any]) -> Answer:
    return Answer(
        ask=value["ask"],
        query=value["query"],
        status=value["status"],
        sha256=_digest(value["sha256"]),
        byte_count=value["byte_count"],
        stored_byte_count=value["stored_byte_count"],
        warnings=tuple(value["warnings"]),
        outcome=Outcome(value["outcome"]),
        reason=value["reason"],
        window=_window(value["window"]) if "window" in value else None,
        tries=value["tries"],
    )


def _hour(value: dict[str, Any]) -> Hour:
    return Hour(
        hour=parse_instant(value["hour"]),
        outcome=Outcome(value["outcome"]),
        reason=value["reason"],
        series_count=value["series_count"],
        sample_count=value["sample_count"],
        by_metric={metric: (counts[0], counts[1]) for metric, counts in value["by_metric"].items()},
        facts=value["facts"],
    )
