"""The attempts as rows of `raw.attempts`: one for each hour of each attempt.

Put here: reading manifests into rows, and the attempts that touch a window.
Not here: the manifest itself (`warehouse.manifest`), or its chain (`ingestion.evidence.landing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.interval import Interval
from warehouse.manifest import USABLE_OUTCOMES, Attempt
from warehouse.store import Store, reading

MANIFESTS = "manifests/"
RESTORE = "restore this file from a backup, then run `gpu-ledger landing verify`"


@dataclass(frozen=True, slots=True)
class AttemptHour:
    """One hour of one attempt."""

    cluster_id: str
    source: str
    attempt_id: str
    sequence: int
    hour_started_at: datetime
    row: Mapping[str, Any]

    @property
    def usable(self) -> bool:
        return self.row["outcome"] in USABLE_OUTCOMES


def attempt_hours(store: Store) -> list[AttemptHour]:
    """Every hour of every landed attempt, in the order of the manifests' keys."""
    found: list[AttemptHour] = []
    for key in store.list(MANIFESTS):
        body = store.read(key)
        with reading(f"{store.location}/{key}", RESTORE):
            found += _hours(Attempt.from_bytes(body))
    return found


def hours_in(hours: Iterable[AttemptHour], window: Interval) -> list[AttemptHour]:
    return [hour for hour in hours if window.contains(hour.hour_started_at)]


def _hours(attempt: Attempt) -> Iterator[AttemptHour]:
    draft = attempt.draft
    shared = {
        "cluster_id": draft.cluster_id,
        "source": draft.source.value,
        "attempt_id": attempt.attempt_id,
        "sequence": attempt.sequence,
        "asked_at": draft.asked_at,
        "answered_at": draft.answered_at,
        "warning_count": attempt.warning_count,
        "answer_sha256s": list(attempt.answer_sha256s),
        "sample_interval_seconds": draft.sampling.sample_interval_seconds,
        "scrape_interval_seconds": draft.sampling.scrape_interval_seconds,
    }
    key = (draft.cluster_id, draft.source.value, attempt.attempt_id, attempt.sequence)
    for hour in attempt.hours:
        counted = {
            "outcome": hour.outcome.value,
            "reason": hour.reason,
            "series_count": hour.series_count,
            "sample_count": hour.sample_count,
        }
        row = {**shared, **counted, "hour_started_at": hour.hour}
        yield AttemptHour(*key, hour.hour, row)
