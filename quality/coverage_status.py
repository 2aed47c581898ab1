"""Coverage statuses: exactly one for every cluster, source and hour of the calendar.

Put here: the rule that turns coverage and decisions into a state.
Not here: what follows from gaps (`coverage`), or where coverage statuses are kept (`run`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from domain.findings import CoverageState, CoverageStatus
from domain.interval import HOUR, Interval, hour_of, subtract
from quality.coverage import (
    NEVER_ASKED,
    SOURCES,
    Expectation,
    HourCoverage,
    SignedGap,
    Stretches,
)


def coverage_statuses(
    expectations: Sequence[Expectation],
    rows: Sequence[HourCoverage],
    signed: Sequence[SignedGap],
    window: Interval,
    stretches: Stretches | None = None,
) -> list[CoverageStatus]:
    """One coverage status per (cluster, source, hour), also for hours without an attempt."""
    first_missing = _first_missing(stretches or {})
    by_key = {(row.cluster_id, row.source, row.hour_started_at): row for row in rows}
    clusters = sorted({e.cluster_id for e in expectations} | {row.cluster_id for row in rows})
    return [
        _verdict(
            CoverageStatus(cluster, source, hour, CoverageState.NOT_EXPECTED, "", 0, 0),
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
    unchecked: CoverageStatus,
    expectations: Iterable[Expectation],
    row: HourCoverage | None,
    signed: Iterable[SignedGap],
    first_missing_at: datetime | None,
) -> CoverageStatus:
    hour = Interval(unchecked.hour_started_at, unchecked.hour_started_at + HOUR)
    measured = [part for e in expectations if (part := e.measured.clipped_to(hour))]
    if not measured:
        return unchecked
    state, reason = _state(row)
    if state is CoverageState.COMPLETE:
        first_missing_at = None
    elif state is CoverageState.MISSING:
        first_missing_at = min(part.started_at for part in measured)
    if state is not CoverageState.COMPLETE and not subtract(measured, [s.interval for s in signed]):
        names = sorted({f"{s.treatment} by {s.decided_by}: {s.reason}" for s in signed
                        if s.interval.overlaps(hour)})  # fmt: skip
        state, reason = CoverageState.WAIVED, f"{reason}; {'; '.join(names)}"
    return CoverageStatus(
        unchecked.cluster_id,
        unchecked.source,
        unchecked.hour_started_at,
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


def _state(row: HourCoverage | None) -> tuple[CoverageState, str]:
    if row is None:
        return CoverageState.MISSING, NEVER_ASKED
    if not row.seen_count:
        return CoverageState.MISSING, row.reason or _reason(row.outcome)
    if row.missing_count or row.is_doubted:
        return CoverageState.DEGRADED, row.reason or _reason(row.outcome)
    return CoverageState.COMPLETE, row.reason


def _reason(outcome: str) -> str:
    """Why an hour is not complete whose attempt gave no reason."""
    return "some samples are missing" if outcome == "ok" else outcome
