"""Verdicts: exactly one for every cluster, witness and hour of the calendar.

Put here: the rule that turns coverage and decisions into a state.
Not here: what follows from gaps (`coverage`), or where verdicts are kept (`run`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from domain.findings import Verdict, VerdictState
from domain.interval import HOUR, Interval, hour_of, subtract
from quality.coverage import (
    NEVER_ASKED,
    SOURCES,
    Expectation,
    HourCoverage,
    SignedGap,
    Stretches,
)


def verdicts(
    expectations: Sequence[Expectation],
    rows: Sequence[HourCoverage],
    signed: Sequence[SignedGap],
    window: Interval,
    stretches: Stretches | None = None,
) -> list[Verdict]:
    """One verdict per (cluster, source, hour), also for hours that nobody ever asked for."""
    first_missing = _first_missing(stretches or {})
    by_key = {(row.cluster_id, row.source, row.hour_started_at): row for row in rows}
    clusters = sorted({e.cluster_id for e in expectations} | {row.cluster_id for row in rows})
    return [
        _verdict(
            Verdict(cluster, source, hour, VerdictState.NOT_EXPECTED, "", 0, 0),
            [e for e in expectations if e.cluster_id == cluster and source in e.sources],
            by_key.get((cluster, source, hour)),
            [s for s in signed if s.cluster_id == cluster and s.source == source and not s.pod_uid],
            first_missing.get((cluster, source, hour)),
        )
        for cluster in clusters
        for source in SOURCES
        for hour in window.hours()
    ]


def _verdict(
    unjudged: Verdict,
    expectations: Iterable[Expectation],
    row: HourCoverage | None,
    signed: Iterable[SignedGap],
    first_missing_at: datetime | None,
) -> Verdict:
    hour = Interval(unjudged.hour_started_at, unjudged.hour_started_at + HOUR)
    measured = [part for e in expectations if (part := e.measured.clipped_to(hour))]
    if not measured:
        return unjudged
    state, reason = _state(row)
    if state is VerdictState.COMPLETE:
        first_missing_at = None
    elif state is VerdictState.MISSING:
        first_missing_at = min(part.started_at for part in measured)
    if state is not VerdictState.COMPLETE and not subtract(measured, [s.interval for s in signed]):
        names = sorted({f"{s.treatment} by {s.decided_by}: {s.reason}" for s in signed
                        if s.interval.overlaps(hour)})  # fmt: skip
        state, reason = VerdictState.WAIVED, f"{reason}; {'; '.join(names)}"
    return Verdict(
        unjudged.cluster_id,
        unjudged.source,
        unjudged.hour_started_at,
        state,
        reason,
        row.expected_count if row else 0,
        row.seen_count if row else 0,
        first_missing_at,
    )


def _first_missing(stretches: Stretches) -> dict[tuple[str, str, datetime], datetime]:
    """Where the first hole of each hour begins, of hours that have one."""
    found: dict[tuple[str, str, datetime], datetime] = {}
    for (cluster, source), missing in stretches.items():
        for piece in (piece for stretch in sorted(missing) for piece in stretch.split_at_hours()):
            found.setdefault((cluster, source, hour_of(piece.started_at)), piece.started_at)
    return found


def _state(row: HourCoverage | None) -> tuple[VerdictState, str]:
    if row is None:
        return VerdictState.MISSING, NEVER_ASKED
    if not row.seen_count:
        return VerdictState.MISSING, row.reason or _reason(row.outcome)
    if row.missing_count or row.is_doubted:
        return VerdictState.DEGRADED, row.reason or _reason(row.outcome)
    return VerdictState.COMPLETE, row.reason


def _reason(outcome: str) -> str:
    """Why an hour is not complete whose attempt gave no reason."""
    return "some samples are missing" if outcome == "ok" else outcome
