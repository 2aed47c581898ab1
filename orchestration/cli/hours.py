"""`gpu-ledger hours`: list the expected hours of a period with their attempts.

Put here: a row for each hour, or for each attempt.
Not here: which hours are due (`ingestion.evidence.hour_ledger`), or pulling them (`pull`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from domain.interval import Interval
from ingestion.evidence.hour_ledger import HourEntry, hour_ledger, is_ready
from orchestration.cli.output import Row, emit, home_option, output_option
from orchestration.cli.time_arguments import (
    HOURS,
    OLDEST_OPEN,
    period_argument,
    period_or_oldest_open,
)
from orchestration.open_home import OpenHome
from orchestration.open_hours import retention_days

EPILOG = """\b
Examples:
  gpu-ledger hours                         the oldest open month: incomplete or doubtful hours
  gpu-ledger hours 2026-10 --all -o csv
  gpu-ledger hours 2026-10 --attempts      each attempt, and whether it is used
  gpu-ledger hours 2026-10 --attempts --only 2026-10-03T07..2026-10-03T08 --all
"""

ATTEMPT_COLUMNS = (
    "cluster_id",
    "source",
    "hour",
    "attempt",
    "asked_at",
    "outcome",
    "used",
    "series",
    "samples",
    "reason",
    "facts",
    "changes",
)


@click.command(epilog=EPILOG)
@period_argument(OLDEST_OPEN)
@click.option("--all", "show_all", is_flag=True, help="Also list complete hours.")
@click.option("--attempts", "by_attempt", is_flag=True, help="Print one row for each attempt.")
@click.option("--only", type=HOURS, help="Only whole hours A..B of the period, B not included.")
@click.option("--cluster", "clusters", multiple=True, help="Only this cluster ID (repeatable).")
@home_option
@output_option
def hours(
    period: BillingPeriod | None,
    show_all: bool,
    by_attempt: bool,
    only: Interval | None,
    clusters: tuple[str, ...],
    home_path: Path,
    output: str,
) -> int:
    """List the hours that the calendar expects in a period, with their attempts.

    By default the table has hours without a successful attempt, and hours whose response appears to
    lack series. With --attempts each attempt has a row: its counts, whether its response is used,
    and by how many samples it differs from the successful attempt before it.
    """
    opened = OpenHome.at(home_path)
    period = period_or_oldest_open(opened, period)
    now = opened.clock.now()
    window = only.clipped_to(period.interval) if only else period.interval
    expected = opened.decisions.expected_hours(window) if window else []
    entries = [
        entry
        for entry in hour_ledger(expected, opened.landing.attempts())
        if not clusters or entry.cluster_id in clusters
    ]
    due = [entry for entry in entries if entry.responses or is_ready(entry, now)]
    shown = [entry for entry in due if show_all or not entry.is_whole or entry.doubts]
    if by_attempt:
        # The counts by metric do not fit into a table.
        more = ("by_metric",) if output == "json" else ()
        columns = (*ATTEMPT_COLUMNS, *more)
        emit(list(_attempts(shown)), output, columns, empty=_empty_text(period, due, show_all))
    else:
        rows = [_hour(opened, entry, now) for entry in shown]
        emit(rows, output, empty=_empty_text(period, due, show_all))
    if by_attempt and (never := sum(not entry.responses for entry in shown)):
        click.echo(f"{never} hours have no attempt; they are listed without --attempts.", err=True)
    if early := len(entries) - len(due):
        click.echo(f"{early} hours are not due yet, and not listed.", err=True)
    return 0


def _empty_text(period: BillingPeriod, due: Sequence[HourEntry], show_all: bool) -> str:
    """The sentence for an empty list."""
    if not due:
        return f"No hour of {period} is due: none is measured, or all are in the future."
    return (
        "No attempt was made."
        if show_all
        else f"All {len(due)} hours due of {period} are complete."
    )


def _hour(opened: OpenHome, entry: HourEntry, now: datetime) -> Row:
    best = entry.best
    return {
        "cluster_id": entry.cluster_id,
        "source": entry.source.value,
        "hour": entry.hour_started_at,
        "attempts": len(entry.responses),
        "outcome": best.outcome.value if best else "never queried",
        "reason": best.hour.reason if best else "",
        "samples": best.hour.sample_count if best else 0,
        "doubts": entry.doubts,
        "can_be_backfilled": entry.backfillable(now, retention_days(opened, entry.cluster_id)),
    }


def _attempts(entries: Sequence[HourEntry]) -> Iterator[Row]:
    for entry in entries:
        for response in entry.responses:
            yield {
                "cluster_id": entry.cluster_id,
                "source": entry.source.value,
                "hour": entry.hour_started_at,
                "attempt": response.sequence,
                "asked_at": response.asked_at,
                "outcome": response.outcome.value,
                "used": response in entry.used,
                "series": response.hour.series_count,
                "samples": response.hour.sample_count,
                "reason": response.hour.reason,
                "facts": dict(response.hour.facts),
                "changes": {
                    metric: after - before
                    for metric, (before, after) in entry.changes_by(response).items()
                },
                "by_metric": dict(response.hour.by_metric),
            }
