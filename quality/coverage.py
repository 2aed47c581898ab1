"""Coverage: the gaps of the sources, the amounts in them, and the coverage status of every hour.

Put here: expected and missing time, time that the other source covers, accepted gaps; exactly one
coverage status for every cluster, source and hour of the calendar.
Not here: the findings of gaps (`gap_findings`), or reading gaps from the marts (`checked_facts`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from domain.decisions.rows import AcceptedGap
from domain.findings import CoverageState, CoverageStatus
from domain.interval import HOUR, Interval, hour_of, intersection, subtract, union

SAMPLES = "thanos"
JOURNAL = "kubernetes"
SOURCES = (SAMPLES, JOURNAL)
NEVER_ASKED = "never asked"


@dataclass(frozen=True, slots=True, order=True)
class Expectation:
    """A decision: during this time this cluster is measured by these sources."""

    cluster_id: str
    measured: Interval
    sources: frozenset[str]


@dataclass(frozen=True, slots=True, order=True)
class HourCoverage:
    """The coverage of one hour of one cluster by one source."""

    cluster_id: str
    source: str
    hour_started_at: datetime
    expected_count: int
    seen_count: int
    missing_count: int
    outcome: str = "ok"
    reason: str = ""
    backfillable: bool = True
    pod_missing_count: int = 0  # samples of single pods, beside `missing_count`

    @property
    def is_response_incomplete(self) -> bool:
        """Whether the response is incomplete although no sample between two others is missing.

        It has a warning, fewer stores or fewer series than before. Missing pods leave no gap.
        """
        whole = bool(self.seen_count) and not self.missing_count
        return self.source == SAMPLES and self.outcome != "ok" and whole


MissingIntervals = Mapping[tuple[str, str], Sequence[Interval]]
"""Cluster and source → the intervals that are missing, to the second."""


@dataclass(frozen=True, slots=True, order=True)
class CoverageGap:
    """Time without one source, and the reason."""

    cluster_id: str
    source: str
    interval: Interval
    reason: str
    backfillable: bool
    details: str = ""  # the message of the server, or the refused samples
    missing_count: int = 0  # in the whole hour of the gap; 0 of 0 without counts
    expected_count: int = 0


@dataclass(frozen=True, slots=True)
class HourUse:
    """The billed use in one hour of one cluster, to estimate a missing hour."""

    nanos: int
    seconds: int
    tenants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UseByHour:
    """Use by cluster and hour, and the hours that were measured, with use or without."""

    by_hour: Mapping[tuple[str, datetime], HourUse]
    measured: Set[tuple[str, datetime]] = frozenset()

    def nearest(self, cluster_id: str, interval: Interval) -> HourUse | None:
        """The use of the nearest measured hour: before the gap if there is one, else after it."""
        known = {*self.by_hour, *self.measured}
        hours = sorted(hour for cluster, hour in known if cluster == cluster_id)
        before = [hour for hour in hours if hour + HOUR <= interval.started_at]
        after = [hour for hour in hours if hour >= interval.ended_at]
        nearest = before[-1:] or after[:1]
        return self.by_hour.get((cluster_id, nearest[0])) if nearest else None

    def inside(self, cluster_id: str, interval: Interval) -> HourUse:
        """The use of all hours that the interval touches."""
        uses = [self.by_hour.get((cluster_id, hour)) for hour in interval.hours()]
        found = [use for use in uses if use]
        return HourUse(
            sum(use.nanos for use in found),
            sum(use.seconds for use in found),
            tuple(sorted({tenant for use in found for tenant in use.tenants})),
        )


def gaps_of_hours(
    expectations: Iterable[Expectation],
    rows: Sequence[HourCoverage],
    window: Interval,
    explain: Callable[[HourCoverage], tuple[str, str]] = lambda row: (
        row.reason or row.outcome,
        "",
    ),
    intervals: MissingIntervals | None = None,
) -> list[CoverageGap]:
    """The gaps of each hour that the calendar expects.

    A partly covered hour has the gaps of `intervals`; without them the whole hour is a gap.
    `explain`: returns the reason and its details.
    """
    known = intervals or {}
    by_key = {(row.cluster_id, row.source, row.hour_started_at): row for row in rows}
    gaps = []
    for expectation in expectations:
        measured = expectation.measured.clipped_to(window)
        for piece in measured.split_at_hours() if measured else []:
            for source in sorted(expectation.sources):
                key = (expectation.cluster_id, source, hour_of(piece.started_at))
                row = by_key.get(key)
                if row is None:
                    gaps.append(
                        CoverageGap(*key[:2], piece, NEVER_ASKED, backfillable=source == SAMPLES)
                    )
                elif row.missing_count or row.is_response_incomplete or not row.seen_count:
                    missing = intersection([piece], known.get(key[:2], ())) or [piece]
                    all_of_it = row.is_response_incomplete or not row.seen_count
                    counted = (
                        (0, 0)
                        if row.is_response_incomplete
                        else (row.missing_count, row.expected_count)
                    )
                    for part in [piece] if all_of_it else missing:
                        reason, details = explain(row)
                        gaps.append(
                            CoverageGap(*key[:2], part, reason, row.backfillable, details, *counted)
                        )
    return gaps


@dataclass(frozen=True, slots=True)
class GapReport:
    """A gap with its place, reason, affected tenants, and the decision that accepts it."""

    name: str  # of its finding
    cluster_id: str
    interval: Interval
    sources: tuple[str, ...]  # whose evidence is missing
    reasons: tuple[str, ...]
    backfillable: bool
    tenants: tuple[str, ...]
    nanos: int  # an estimate without any source; else the amount billed by the other source
    acceptance: AcceptedGap | None = None
    pods: tuple[str, ...] = ()  # in its hours or the hour before
    missing_seconds: int = 0  # in the interval: many short gaps are one report

    @property
    def hours(self) -> Interval:
        return hours_around(self.interval)


def gap_reports(
    expectations: Sequence[Expectation],
    gaps: Sequence[CoverageGap],
    accepted: Sequence[AcceptedGap],
    use_by_hour: UseByHour,
) -> list[GapReport]:
    """Every gap: unseen, accepted, or covered by the other source."""
    reports: list[GapReport] = []
    for expectation in sorted(expectations, key=lambda e: (e.cluster_id, e.measured)):
        own = [gap for gap in gaps if gap.cluster_id == expectation.cluster_id]
        unseen = unseen_time(expectation, own)
        decisions = [
            gap for gap in accepted if gap.cluster_id == expectation.cluster_id and not gap.pod_uid
        ]
        for interval in subtract(unseen, [decision.interval for decision in decisions]):
            reports.append(_unseen("hour_not_measured", interval, own, use_by_hour))
        for decision in decisions:
            for interval in intersection(unseen, [decision.interval]):
                reports.append(_unseen("gap_accepted", interval, own, use_by_hour, decision))
        reports += _covered(expectation, own, unseen, use_by_hour)
    return reports


def pod_gap_reports(rows: Iterable[HourCoverage]) -> list[GapReport]:
    """Samples of single pods that are missing between two others: consecutive hours as one row.

    Both neighbours prove the time between them, so no amount is uncertain.
    """
    hours: dict[str, dict[datetime, int]] = {}
    for row in rows:
        if row.pod_missing_count:
            of_cluster = hours.setdefault(row.cluster_id, {})
            of_cluster[row.hour_started_at] = row.pod_missing_count
    return [
        GapReport(
            name="single_pods_missing",
            cluster_id=cluster_id,
            interval=interval,
            sources=(SAMPLES,),
            reasons=(f"{SAMPLES}: {count} samples of single pods missing",),
            backfillable=False,
            tenants=(),
            nanos=0,
        )
        for cluster_id, counts in sorted(hours.items())
        for interval in union(Interval(hour, hour + HOUR) for hour in counts)
        for count in [sum(counts.get(hour, 0) for hour in interval.hours())]
    ]


def unseen_time(expectation: Expectation, gaps: Iterable[CoverageGap]) -> list[Interval]:
    """The time in which every expected source is missing at once."""
    unseen = [expectation.measured]
    for source in expectation.sources:
        unseen = intersection(unseen, [gap.interval for gap in gaps if gap.source == source])
    return unseen


def hours_around(interval: Interval) -> Interval:
    """The whole hours that an interval touches."""
    last = hour_of(interval.ended_at - timedelta(seconds=1))
    return Interval(hour_of(interval.started_at), max(last, hour_of(interval.started_at)) + HOUR)


def _unseen(
    name: str,
    interval: Interval,
    gaps: Sequence[CoverageGap],
    use_by_hour: UseByHour,
    decision: AcceptedGap | None = None,
) -> GapReport:
    touching = [gap for gap in gaps if gap.interval.overlaps(interval)]
    use = use_by_hour.nearest(touching[0].cluster_id, interval)
    return GapReport(
        name=name,
        cluster_id=touching[0].cluster_id,
        interval=interval,
        sources=tuple(sorted({gap.source for gap in touching})),
        reasons=_reasons(touching),
        backfillable=any(gap.backfillable for gap in touching),
        tenants=use.tenants if use else (),
        nanos=use.nanos * interval.seconds // 3600 if use else 0,
        acceptance=decision,
        missing_seconds=interval.seconds,
    )


def _covered(
    expectation: Expectation,
    gaps: Sequence[CoverageGap],
    unseen: Sequence[Interval],
    use_by_hour: UseByHour,
) -> list[GapReport]:
    reports = []
    for source, name in ((SAMPLES, "samples_missing"), (JOURNAL, "journal_missing")):
        for backfillable in (False, True):
            own = [g for g in gaps if (g.source, g.backfillable) == (source, backfillable)]
            times = union(gap.interval for gap in own if source in expectation.sources)
            missing = subtract(intersection(times, [expectation.measured]), unseen)
            for row in _rows(_gaps_by_interval(missing, own)):
                interval = Interval(row[0][0].started_at, row[-1][0].ended_at)
                use = use_by_hour.inside(expectation.cluster_id, interval)
                reports.append(
                    GapReport(
                        name=name,
                        cluster_id=expectation.cluster_id,
                        interval=interval,
                        sources=(source,),
                        reasons=_reasons(gap for _, inside in row for gap in inside),
                        backfillable=backfillable,
                        tenants=use.tenants,
                        nanos=use.nanos,
                        missing_seconds=sum(interval.seconds for interval, _ in row),
                    )
                )
    return reports


_IntervalGaps = tuple[Interval, Sequence[CoverageGap]]


def _gaps_by_interval(
    intervals: Iterable[Interval], gaps: Iterable[CoverageGap]
) -> list[_IntervalGaps]:
    """Each interval with the gaps, of one hour each, that lie in it."""
    found: list[tuple[Interval, list[CoverageGap]]] = [
        (interval, []) for interval in sorted(intervals)
    ]
    starts = [interval.started_at for interval, _ in found]
    for gap in sorted(gaps):
        place = max(bisect_right(starts, gap.interval.started_at) - 1, 0)
        while place < len(found) and starts[place] < gap.interval.ended_at:
            if found[place][0].overlaps(gap.interval):
                found[place][1].append(gap)
            place += 1
    return list(found)


def _rows(intervals: Iterable[_IntervalGaps]) -> Iterator[list[_IntervalGaps]]:
    """Consecutive intervals with the same reasons and less than an hour apart, as one row.

    A scrape that fails now and then would otherwise fill a month with thousands of gaps.
    Adjoining intervals are one row, whatever their reasons, as the hours in which an outage begins
    and ends.
    """
    row: list[_IntervalGaps] = []
    for interval, gaps in intervals:
        if row:
            before, others = row[-1]
            is_near = interval.started_at - before.ended_at < HOUR
            if not is_near or {g.reason for g in gaps} != {g.reason for g in others}:
                yield row
                row = []
        row.append((interval, gaps))
    if row:
        yield row


def _reasons(gaps: Iterable[CoverageGap]) -> tuple[str, ...]:
    """The reasons of the gaps, each once, with the counts of all hours that have it."""
    hours: dict[tuple[str, str, str], dict[datetime, CoverageGap]] = {}
    for gap in gaps:
        of_hours = hours.setdefault((gap.source, gap.reason, gap.details), {})
        of_hours[hour_of(gap.interval.started_at)] = gap
    texts = []
    for (source, reason, details), of_hours in sorted(hours.items()):
        missing = sum(gap.missing_count for gap in of_hours.values())
        expected = sum(gap.expected_count for gap in of_hours.values())
        unit = "samples" if source == SAMPLES else "seconds"
        counted = f", {missing} of {expected} {unit} missing" if expected else ""
        texts.append(f"{source}: {reason}{counted}{': ' if details else ''}{details}")
    return tuple(texts)


# Coverage status ----------------------------------------------------------------------------------


def coverage_statuses(
    expectations: Sequence[Expectation],
    rows: Sequence[HourCoverage],
    accepted: Sequence[AcceptedGap],
    window: Interval,
    intervals: MissingIntervals | None = None,
) -> list[CoverageStatus]:
    """One coverage status per (cluster, source, hour), also for hours without an attempt."""
    first_missing = _first_missing(intervals or {})
    by_key = {(row.cluster_id, row.source, row.hour_started_at): row for row in rows}
    clusters = sorted({e.cluster_id for e in expectations} | {row.cluster_id for row in rows})
    return [
        _coverage_status(
            CoverageStatus(cluster, source, hour, CoverageState.NOT_EXPECTED, "", 0, 0),
            [e for e in expectations if e.cluster_id == cluster and source in e.sources],
            by_key.get((cluster, source, hour)),
            [
                gap
                for gap in accepted
                if gap.cluster_id == cluster and gap.source == source and not gap.pod_uid
            ],
            first_missing.get((cluster, source, hour)),
        )
        for cluster in clusters
        for source in SOURCES
        for hour in window.hours()
    ]


def _coverage_status(
    expected: CoverageStatus,
    expectations: Iterable[Expectation],
    row: HourCoverage | None,
    accepted: Iterable[AcceptedGap],
    first_missing_at: datetime | None,
) -> CoverageStatus:
    hour = Interval(expected.hour_started_at, expected.hour_started_at + HOUR)
    measured = [part for e in expectations if (part := e.measured.clipped_to(hour))]
    if not measured:
        return expected
    state, reason = _state(row)
    if state is CoverageState.COMPLETE:
        first_missing_at = None
    elif state is CoverageState.MISSING:
        first_missing_at = min(part.started_at for part in measured)
    if state is not CoverageState.COMPLETE and not subtract(
        measured, [gap.interval for gap in accepted]
    ):
        decisions = {
            f"{gap.treatment} by {gap.decided_by}: {gap.reason}"
            for gap in accepted
            if gap.interval.overlaps(hour)
        }
        state, reason = CoverageState.WAIVED, f"{reason}; {'; '.join(sorted(decisions))}"
    return CoverageStatus(
        expected.cluster_id,
        expected.source,
        expected.hour_started_at,
        state,
        reason,
        row.expected_count if row else 0,
        row.seen_count if row else 0,
        first_missing_at,
    )


def _first_missing(intervals: MissingIntervals) -> dict[tuple[str, str, datetime], datetime]:
    """The start of the first gap of each hour with a gap."""
    found: dict[tuple[str, str, datetime], datetime] = {}
    for (cluster, source), missing in intervals.items():
        for piece in (piece for interval in sorted(missing) for piece in interval.split_at_hours()):
            found.setdefault((cluster, source, hour_of(piece.started_at)), piece.started_at)
    return found


def _state(row: HourCoverage | None) -> tuple[CoverageState, str]:
    if row is None:
        return CoverageState.MISSING, NEVER_ASKED
    if not row.seen_count:
        return CoverageState.MISSING, row.reason or _reason(row.outcome)
    if row.missing_count or row.is_response_incomplete:
        return CoverageState.DEGRADED, row.reason or _reason(row.outcome)
    return CoverageState.COMPLETE, row.reason


def _reason(outcome: str) -> str:
    """The reason of an incomplete hour whose attempt has none."""
    return "some samples are missing" if outcome == "ok" else outcome
