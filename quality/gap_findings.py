"""The findings of gaps: their texts and their commands.

Put here: the texts, the command that backfills a gap, the command that accepts it.
Not here: the gaps themselves (`coverage`).
"""

from __future__ import annotations

from collections.abc import Iterable

from domain.findings import Finding, Remedy
from domain.interval import Interval, format_instant
from domain.money import format_estimate
from quality.coverage import SAMPLES, GapReport
from quality.finding_catalogue import CATALOGUE

TENANTS_NAMED = 5
"""Tenants named in one sentence; the rest are counted, and `gpu-ledger gaps` lists them all."""


def gap_findings(reports: Iterable[GapReport], currency: str) -> list[Finding]:
    """One finding per gap."""
    return [_finding(report, currency) for report in reports]


def command(report: GapReport) -> str:
    """The command that backfills or accepts the gap; none if the other source covers it."""
    if report.acceptance:
        return ""
    if report.backfillable:
        return pull_command(report.cluster_id, report.hours)
    return accept_command(report) if report.name == "hour_not_measured" else ""


def pull_command(cluster_id: str, hours: Interval) -> str:
    return (
        f"gpu-ledger pull --cluster {cluster_id} --hours "
        f"{format_instant(hours.started_at)}..{format_instant(hours.ended_at)} --all"
    )


def accept_command(report: GapReport) -> str:
    return (
        f"gpu-ledger accept-gap --cluster {report.cluster_id} --source {report.sources[0]} "
        f"--from {format_instant(report.interval.started_at)} "
        f"--to {format_instant(report.interval.ended_at)} "
        "--treatment bill_nothing --reason WHY --by NAME"
    )


def spelled(interval: Interval) -> str:
    return f"{format_instant(interval.started_at)} to {format_instant(interval.ended_at)}"


def _finding(report: GapReport, currency: str) -> Finding:
    kind = CATALOGUE[report.name]
    return kind.finding(
        where=f"cluster {report.cluster_id}, {spelled(report.interval)}",
        seen=_found_text(report, currency),
        what_to_do=_remedy_text(report),
        remedy=_remedy(report),
        cluster_id=report.cluster_id,
        started_at=report.hours.started_at,
        ended_at=report.hours.ended_at,
        seconds=report.missing_seconds,
        nanos=report.nanos,
    )


def _found_text(report: GapReport, currency: str) -> str:
    seconds, reasons = report.missing_seconds, "; ".join(report.reasons)
    if report.acceptance:
        decision = report.acceptance
        return (
            f"{seconds} s seen by no source ({reasons}), accepted by {decision.decided_by} "
            f"({decision.treatment}: {decision.reason})"
        )
    if report.name == "hour_not_measured":
        return (
            f"{_hours(report.hours)}, {seconds} s seen by no source ({reasons})"
            f"{_concerned_text(report, currency)}"
        )
    if report.name == "single_pods_missing":
        return (
            f"{_hours(report.hours)} ({reasons}); samples before and after prove the time between"
        )
    other = "journal covers" if report.sources == (SAMPLES,) else "samples cover"
    return f"{_hours(report.hours)} ({reasons}); the {other} it"


def _remedy_text(report: GapReport) -> str:
    if report.name != "hour_not_measured":
        return ""
    return command(report) if report.backfillable else f"it cannot be backfilled: {command(report)}"


def _remedy(report: GapReport) -> Remedy | None:
    if report.name != "hour_not_measured":
        return None
    return Remedy.BACKFILL if report.backfillable else Remedy.CORRECT


def _hours(hours: Interval) -> str:
    count = hours.seconds // 3600
    return "1 hour" if count == 1 else f"{count} hours"


def _concerned_text(report: GapReport, currency: str) -> str:
    if not report.tenants:
        return ""
    named = ", ".join(report.tenants[:TENANTS_NAMED])
    more = len(report.tenants) - TENANTS_NAMED
    others = f" and {more} more" if more > 0 else ""
    is_priced = bool(report.nanos and currency)
    money = f", about {format_estimate(report.nanos, currency)}" if is_priced else ""
    return f"; by the nearest measured hour this concerns {named}{others}{money}"
