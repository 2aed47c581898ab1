"""Coverage: which time no witness saw, which time only one saw, and what was at stake in it.

Put here: the algebra of gaps: what was expected, what is missing, what the other witness covers,
what a person has signed.
Not here: the verdict of each hour (`verdict`), pods about which the witnesses disagree
(`reconciliation`), or where gaps are read from (`facts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from domain.findings import Finding, Remedy
from domain.interval import (
    HOUR,
    Interval,
    format_instant,
    hour_of,
    intersection,
    subtract,
    total_seconds,
    union,
)
from quality.catalogue import CATALOGUE

SAMPLES = "thanos"
JOURNAL = "kubernetes"
SOURCES = (SAMPLES, JOURNAL)
NEVER_ASKED = "never asked"
TENANTS_NAMED = 5
"""Tenants named in one sentence; the rest are counted. The JSON of the judgement has the hours."""


@dataclass(frozen=True, slots=True, order=True)
class Expectation:
    """A decision: during this time this cluster is measured by these witnesses."""

    cluster_id: str
    measured: Interval
    sources: frozenset[str]


@dataclass(frozen=True, slots=True, order=True)
class HourCoverage:
    """What one witness showed of one hour of one cluster."""

    cluster_id: str
    source: str
    hour_started_at: datetime
    expected_count: int
    seen_count: int
    missing_count: int
    outcome: str = "ok"
    reason: str = ""
    healable: bool = True


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """Time in which one witness is missing, and why."""

    cluster_id: str
    source: str
    interval: Interval
    reason: str
    healable: bool


@dataclass(frozen=True, slots=True, order=True)
class SignedGap:
    """A decision that accepts a gap of one witness, for all pods of a cluster or for one."""

    cluster_id: str
    source: str
    interval: Interval
    treatment: str
    reason: str
    decided_by: str
    pod_uid: str = ""  # '' is every pod of the cluster


@dataclass(frozen=True, slots=True)
class HourUse:
    """What was billed in one hour of one cluster, to tell what a missing hour may have cost."""

    nanos: int
    seconds: int
    tenants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stakes:
    """Use by cluster and hour."""

    by_hour: Mapping[tuple[str, datetime], HourUse]
    currency: str = ""

    def nearest(self, cluster_id: str, interval: Interval) -> HourUse | None:
        """The use of the nearest hour outside: before the gap if there is one, else after it."""
        hours = sorted(hour for cluster, hour in self.by_hour if cluster == cluster_id)
        before = [hour for hour in hours if hour + HOUR <= interval.started_at]
        after = [hour for hour in hours if hour >= interval.ended_at]
        nearest = before[-1:] or after[:1]
        return self.by_hour[cluster_id, nearest[0]] if nearest else None

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
    expectations: Iterable[Expectation], rows: Sequence[HourCoverage], window: Interval
) -> list[Gap]:
    """Whole hours that are incomplete or have no row at all: the calendar says what is expected."""
    by_key = {(row.cluster_id, row.source, row.hour_started_at): row for row in rows}
    gaps = []
    for expectation in expectations:
        measured = expectation.measured.clipped_to(window)
        for piece in measured.split_at_hours() if measured else []:
            for source in sorted(expectation.sources):
                key = (expectation.cluster_id, source, hour_of(piece.started_at))
                row = by_key.get(key)
                if row is None:
                    gaps.append(Gap(*key[:2], piece, NEVER_ASKED, healable=source == SAMPLES))
                elif row.missing_count or not row.seen_count:
                    gaps.append(Gap(*key[:2], piece, row.reason or row.outcome, row.healable))
    return gaps


def coverage_findings(
    expectations: Sequence[Expectation],
    gaps: Sequence[Gap],
    signed: Sequence[SignedGap],
    stakes: Stakes,
) -> list[Finding]:
    """Every gap, as the finding that it is: unseen, signed, or covered by the other witness."""
    findings: list[Finding] = []
    for expectation in sorted(expectations, key=lambda e: (e.cluster_id, e.measured)):
        own = [gap for gap in gaps if gap.cluster_id == expectation.cluster_id]
        unseen = unseen_time(expectation, own)
        accepted = [s for s in signed if s.cluster_id == expectation.cluster_id and not s.pod_uid]
        for interval in subtract(unseen, [decision.interval for decision in accepted]):
            findings.append(_not_measured(expectation.cluster_id, interval, own, stakes))
        for decision in accepted:
            findings += _signed(decision, intersection(unseen, [decision.interval]), stakes)
        findings += _covered(expectation, own, unseen, stakes)
    return findings


def unseen_time(expectation: Expectation, gaps: Iterable[Gap]) -> list[Interval]:
    """The time in which every expected witness is missing at once."""
    unseen = [expectation.measured]
    for source in expectation.sources:
        unseen = intersection(unseen, [gap.interval for gap in gaps if gap.source == source])
    return unseen


def spelled(interval: Interval) -> str:
    """An interval in words: its hours when it is whole hours, its seconds otherwise."""
    return f"{format_instant(interval.started_at)} to {format_instant(interval.ended_at)}"


def hours_around(interval: Interval) -> Interval:
    """The whole hours that an interval touches."""
    last = hour_of(interval.ended_at - timedelta(seconds=1))
    return Interval(hour_of(interval.started_at), last + HOUR)


def _not_measured(
    cluster_id: str, interval: Interval, gaps: Sequence[Gap], stakes: Stakes
) -> Finding:
    touching = [gap for gap in gaps if gap.interval.overlaps(interval)]
    healable = any(gap.healable for gap in touching)
    use = stakes.nearest(cluster_id, interval)
    hours = hours_around(interval)
    nanos = use.nanos * interval.seconds // 3600 if use else 0
    return CATALOGUE["hour_not_measured"].finding(
        where=f"cluster {cluster_id}, {spelled(interval)}",
        seen=f"{_hours(hours)}, {interval.seconds} s seen by no witness ({_reasons(touching)})"
        f"{_at_stake(use, nanos, stakes.currency)}",
        what_to_do=_ask_again(cluster_id, hours) if healable else _sign(cluster_id, interval),
        remedy=Remedy.HEALS if healable else Remedy.SIGN,
        cluster_id=cluster_id,
        started_at=hours.started_at,
        ended_at=hours.ended_at,
        seconds=interval.seconds,
        nanos=nanos,
    )


def _signed(decision: SignedGap, unseen: Sequence[Interval], stakes: Stakes) -> list[Finding]:
    return [
        CATALOGUE["gap_signed"].finding(
            where=f"cluster {decision.cluster_id}, {spelled(interval)}",
            seen=f"{interval.seconds} s seen by no witness, accepted by {decision.decided_by} "
            f"({decision.treatment}: {decision.reason})",
            cluster_id=decision.cluster_id,
            started_at=hours_around(interval).started_at,
            ended_at=hours_around(interval).ended_at,
            seconds=interval.seconds,
            nanos=_estimate(stakes.nearest(decision.cluster_id, interval), interval),
        )
        for interval in unseen
    ]


def _covered(
    expectation: Expectation, gaps: Sequence[Gap], unseen: Sequence[Interval], stakes: Stakes
) -> list[Finding]:
    findings = []
    for source, name in ((SAMPLES, "samples_missing"), (JOURNAL, "journal_missing")):
        if source not in expectation.sources:
            continue
        own = [gap for gap in gaps if gap.source == source]
        reasons = sorted({(gap.reason, gap.healable) for gap in own})
        for reason, healable in reasons:
            times = union(g.interval for g in own if (g.reason, g.healable) == (reason, healable))
            for interval in subtract(intersection(times, [expectation.measured]), unseen):
                gap = Gap(expectation.cluster_id, source, interval, reason, healable)
                findings.append(_covered_gap(name, gap, stakes))
    return findings


def _covered_gap(name: str, gap: Gap, stakes: Stakes) -> Finding:
    hours = hours_around(gap.interval)
    use = stakes.inside(gap.cluster_id, gap.interval)
    other = "journal covers" if gap.source == SAMPLES else "samples cover"
    return CATALOGUE[name].finding(
        where=f"cluster {gap.cluster_id}, {spelled(gap.interval)}",
        seen=f"{_hours(hours)}, {gap.interval.seconds} s of it without {gap.source}: "
        f"{gap.reason}; the {other} it",
        cluster_id=gap.cluster_id,
        started_at=hours.started_at,
        ended_at=hours.ended_at,
        seconds=gap.interval.seconds,
        nanos=use.nanos,
    )


def _hours(hours: Interval) -> str:
    count = total_seconds([hours]) // 3600
    return "1 hour" if count == 1 else f"{count} hours"


def _reasons(gaps: Iterable[Gap]) -> str:
    return "; ".join(sorted({f"{gap.source}: {gap.reason}" for gap in gaps}))


def _estimate(use: HourUse | None, interval: Interval) -> int:
    return use.nanos * interval.seconds // 3600 if use else 0


def _at_stake(use: HourUse | None, nanos: int, currency: str) -> str:
    if use is None or not use.tenants:
        return ""
    named = ", ".join(use.tenants[:TENANTS_NAMED])
    more = len(use.tenants) - TENANTS_NAMED
    others = f" and {more} more" if more > 0 else ""
    money = f", about {nanos // 10**9}.{nanos % 10**9 // 10**7:02} {currency}" if nanos else ""
    return f"; by the nearest measured hour this concerns {named}{others}{money}"


def _ask_again(cluster_id: str, hours: Interval) -> str:
    return (
        f"gpu-ledger pull --cluster {cluster_id} --from {format_instant(hours.started_at)} "
        f"--to {format_instant(hours.ended_at)}"
    )


def _sign(cluster_id: str, interval: Interval) -> str:
    return (
        f"it cannot heal: gpu-ledger accept-gap --cluster {cluster_id} "
        f"--from {format_instant(interval.started_at)} --to {format_instant(interval.ended_at)} "
        "--treatment bill_nothing --reason WHY --by NAME"
    )
