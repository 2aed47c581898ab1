"""What the manifests say about attempts, hour by hour, as rows.

Put here: reading manifests into rows of `raw.attempts`, and which attempts touch a window.
Not here: landing and chaining them (`ingestion.landing`), or checking them (`quality`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.interval import Interval, parse_instant
from warehouse.store import Store, reading

MANIFESTS = "manifests/"
RESTORE = "restore this file from a backup, then run `gpu-ledger landing verify`"
USABLE = frozenset({"ok", "warned", "empty", "degraded", "truncated"})
"""Outcomes after which there may be rows to read; `failed` and `refused` brought nothing."""


@dataclass(frozen=True, slots=True)
class AttemptHour:
    """One attempt, as far as it concerns one hour."""

    cluster_id: str
    source: str
    attempt_id: str
    sequence: int
    hour_started_at: datetime
    row: Mapping[str, Any]

    @property
    def usable(self) -> bool:
        return self.row["outcome"] in USABLE


def attempt_hours(store: Store) -> list[AttemptHour]:
    """Every hour of every attempt that ever was landed, in the order of their keys."""
    found: list[AttemptHour] = []
    for key in store.list(MANIFESTS):
        body = store.read(key)
        with reading(f"{store.location}/{key}", RESTORE):
            found += _hours(body)
    return found


def inside(hours: Iterable[AttemptHour], window: Interval) -> list[AttemptHour]:
    return [hour for hour in hours if window.contains(hour.hour_started_at)]


def _hours(body: bytes) -> list[AttemptHour]:
    manifest = json.loads(body)
    answers = manifest["answers"]
    shared = {
        "cluster_id": manifest["cluster_id"],
        "source": manifest["source"],
        "attempt_id": hashlib.sha256(body).hexdigest(),
        "sequence": manifest["sequence"],
        "asked_at": parse_instant(manifest["asked_at"]),
        "answered_at": parse_instant(manifest["answered_at"]),
        "warning_count": sum(len(answer.get("warnings", [])) for answer in answers),
        "answer_sha256s": sorted({answer["sha256"] for answer in answers if answer["sha256"]}),
        **manifest["sampling"],
    }
    return [_hour(shared, hour) for hour in manifest["hours"]]


def _hour(shared: Mapping[str, Any], hour: Mapping[str, Any]) -> AttemptHour:
    started_at = parse_instant(hour["hour"])
    counted = {name: hour[name] for name in ("outcome", "reason", "series_count", "sample_count")}
    row = {**shared, **counted, "hour_started_at": started_at}
    return AttemptHour(
        shared["cluster_id"],
        shared["source"],
        shared["attempt_id"],
        shared["sequence"],
        started_at,
        row,
    )
