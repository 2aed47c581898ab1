"""What a judgement marks in the strips: every hour that is not complete in its eyes, and why.

Put here: the mark of an hour, and leaving out marks that would say again what the last one said.
Not here: what asking an hour came to (`assets.hour_events`), or judging (`quality`).
"""

# No `from __future__ import annotations` here: beside assets, types are read by Dagster.
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import dagster as dg

from domain.findings import Judgement, Verdict, VerdictState
from ingestion.hours import HourEntry
from orchestration import ledger
from orchestration.assets.hour_events import ATTEMPT, instant_or_reason, last_response, remedy
from orchestration.checks import EvidenceKeys
from orchestration.mirror import HOURS_AT_ONCE, MARKS_PER_HOUR
from orchestration.open_home import OpenHome
from orchestration.partitions import hour_name

FINE = (VerdictState.COMPLETE, VerdictState.NOT_EXPECTED)
VERDICT = "verdict"

NEW_MARKS_LIMIT = 200
"""Marks that one judgement adds to the strip of one witness, 18 ms each on PostgreSQL; the next one
goes on where this one stopped."""


def new_marks(
    instance: dg.DagsterInstance, opened: OpenHome, evidence: EvidenceKeys, judged: Judgement
) -> Iterator[dg.AssetObservation]:
    """A mark for each hour that is not complete and whose last mark says something else."""
    bad: dict[dg.AssetKey, list[Verdict]] = {}
    keys = {(cluster_id, source.value): key for (cluster_id, source), key in evidence.items()}
    for verdict in judged.verdicts:
        key = keys.get((verdict.cluster_id, verdict.source))
        if key is not None and verdict.state not in FINE:
            bad.setdefault(key, []).append(verdict)
    entries = {
        (entry.cluster_id, entry.source.value, entry.hour_started_at): entry
        for entry in (ledger.ledger(opened, judged.period.interval) if bad else ())
    }
    for key, verdicts in bad.items():
        marks = [
            _mark(opened, key, v, entries.get((v.cluster_id, v.source, v.hour_started_at)))
            for v in verdicts
        ]
        yield from islice(_changed(instance, key, marks), NEW_MARKS_LIMIT)


def _mark(
    opened: OpenHome, key: dg.AssetKey, verdict: Verdict, entry: HourEntry | None
) -> dg.AssetObservation:
    return dg.AssetObservation(
        key,
        partition=hour_name(verdict.hour_started_at),
        description=f"judged {verdict.state.value}: {verdict.reason}"[:200],
        metadata={
            VERDICT: verdict.state.value,
            "reason": verdict.reason,
            "expected": verdict.expected_count,
            "seen": verdict.seen_count,
            "missing": verdict.expected_count - verdict.seen_count,
            "first missing": instant_or_reason(verdict.first_missing_at),
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
    """What the last judgement that marked these hours said of each."""
    filters = dg.AssetRecordsFilter(asset_key=key, asset_partitions=list(names))
    records = instance.fetch_observations(filters, limit=len(names) * MARKS_PER_HOUR).records
    found: dict[str, Mapping[str, dg.MetadataValue]] = {}
    for mark in (record.asset_observation for record in records):  # the newest first
        if mark and mark.partition and VERDICT in mark.metadata:
            found.setdefault(mark.partition, mark.metadata)
    return found
