"""What a check marks in the strips: every hour that is not complete in its eyes, and why.

Put here: the mark of an hour, and leaving out marks that would say again what the last one said.
Not here: what asking an hour came to (`assets.hour_events`), or checking (`quality`).
"""

# No `from __future__ import annotations` here: beside assets, types are read by Dagster.
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import dagster as dg

from domain.findings import CheckResult, CoverageState, CoverageStatus
from ingestion.evidence.hour_ledger import HourEntry
from orchestration import ledger
from orchestration.assets.hour_events import ATTEMPT, instant_or_reason, last_response, remedy
from orchestration.checks import EvidenceKeys
from orchestration.mirror import HOURS_AT_ONCE, MARKS_PER_HOUR
from orchestration.open_home import OpenHome
from orchestration.partitions import hour_name

FINE = (CoverageState.COMPLETE, CoverageState.NOT_EXPECTED)
VERDICT = "coverage_status"

NEW_MARKS_LIMIT = 200
"""Marks that one check adds to the strip of one source, 18 ms each on PostgreSQL; the next one
goes on where this one stopped."""


def new_marks(
    instance: dg.DagsterInstance, opened: OpenHome, evidence: EvidenceKeys, checked: CheckResult
) -> Iterator[dg.AssetObservation]:
    """A mark for each hour that is not complete and whose last mark says something else."""
    bad: dict[dg.AssetKey, list[CoverageStatus]] = {}
    keys = {(cluster_id, source.value): key for (cluster_id, source), key in evidence.items()}
    for coverage_status in checked.coverage_statuses:
        key = keys.get((coverage_status.cluster_id, coverage_status.source))
        if key is not None and coverage_status.state not in FINE:
            bad.setdefault(key, []).append(coverage_status)
    entries = {
        (entry.cluster_id, entry.source.value, entry.hour_started_at): entry
        for entry in (ledger.ledger(opened, checked.period.interval) if bad else ())
    }
    for key, coverage_statuses in bad.items():
        marks = [
            _mark(opened, key, v, entries.get((v.cluster_id, v.source, v.hour_started_at)))
            for v in coverage_statuses
        ]
        yield from islice(_changed(instance, key, marks), NEW_MARKS_LIMIT)


def _mark(
    opened: OpenHome, key: dg.AssetKey, coverage_status: CoverageStatus, entry: HourEntry | None
) -> dg.AssetObservation:
    return dg.AssetObservation(
        key,
        partition=hour_name(coverage_status.hour_started_at),
        description=f"checked {coverage_status.state.value}: {coverage_status.reason}"[:200],
        metadata={
            VERDICT: coverage_status.state.value,
            "reason": coverage_status.reason,
            "expected": coverage_status.expected_count,
            "seen": coverage_status.seen_count,
            "missing": coverage_status.expected_count - coverage_status.seen_count,
            "first missing": instant_or_reason(coverage_status.first_missing_at),
            **(remedy(opened, key, entry) if entry else {}),
            # So that nobody says again what this mark says of the same answer.
            **({ATTEMPT: last_response(entry).attempt_id} if entry and entry.responses else {}),
        },
    )


def _changed(
    instance: dg.DagsterInstance, key: dg.AssetKey, marks: Sequence[dg.AssetObservation]
) -> Iterator[dg.AssetObservation]:
    for first in range(0, len(marks), HOURS_AT_ONCE):
        some = marks[first : first + HOURS_AT_ONCE]
        last = _last_marks(instance, key, [str(mark.partition) for mark in some])
        yield from (mark for mark in some if last.get(str(mark.partition)) != mark.metadata)


def _last_marks(
    instance: dg.DagsterInstance, key: dg.AssetKey, names: Sequence[str]
) -> dict[str, Mapping[str, dg.MetadataValue]]:
    """What the last check that marked these hours said of each."""
    filters = dg.AssetRecordsFilter(asset_key=key, asset_partitions=list(names))
    records = instance.fetch_observations(filters, limit=len(names) * MARKS_PER_HOUR).records
    found: dict[str, Mapping[str, dg.MetadataValue]] = {}
    for mark in (record.asset_observation for record in records):  # the newest first
        if mark and mark.partition and VERDICT in mark.metadata:
            found.setdefault(mark.partition, mark.metadata)
    return found
