"""`gpu-ledger pull`: queries to the sources.

Put here: which hours are asked, and showing the attempts that were made now.
Not here: asking (`ingestion`), what was answered so far (`orchestration.cli.hours`), the collector
(`orchestration.cli.collect`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from domain.billing_period import BillingPeriod
from domain.interval import Interval
from orchestration.cli.output import Progress, emit, home_option, output_option, progress
from orchestration.cli.periods import HOURS, takes_a_month

if TYPE_CHECKING:
    from domain.errors import LedgerError
    from orchestration.open_home import OpenHome
    from warehouse.manifest import Attempt

PULL_EPILOG = """\b
Examples:
  gpu-ledger pull                                          all due hours
  gpu-ledger pull --period 2026-10                         the due hours of a month
  gpu-ledger pull --hours 2026-10-03T00..2026-10-03T06     six hours
  gpu-ledger pull --period 2026-10 --cluster CLUSTER_ID --again
  gpu-ledger pull --period 2026-10 --recheck               samples that arrived late, before a close
"""


@click.command(epilog=PULL_EPILOG)
@takes_a_month("All hours of a month; the same as PERIOD.")
@click.option("--hours", "window", type=HOURS, help="Whole hours A..B, B not included.")
@click.option("--cluster", "clusters", multiple=True, help="Only this cluster ID (repeatable).")
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=click.Choice(["thanos", "kubernetes"]),
    help="Only this source.",
)
@click.option("--again", is_flag=True, help="Also query hours that are complete.")
@click.option(
    "--recheck",
    is_flag=True,
    help="Compare sample counts with the store, and query the hours that differ.",
)
@home_option
@output_option
def pull(
    period: BillingPeriod | None,
    window: Interval | None,
    clusters: tuple[str, ...],
    sources: tuple[str, ...],
    again: bool,
    recheck: bool,
    home_path: Path,
    output: str,
) -> int:
    """Query the sources for hours, and land their responses byte for byte.

    Without hours or a period all due hours are queried, the newest first. Every query is kept as an
    attempt, failed ones included; the exit code is 3 if one failed. Two clusters are queried at a
    time; a failure of one does not stop the others. Ctrl-C starts no further query and waits until
    responses under way have landed.
    """
    from orchestration.open_home import OpenHome

    if window is not None and period is not None:
        raise click.UsageError("give --hours or a month, not both")
    stretch = window or (period.interval if period else None)
    opened = OpenHome.at(home_path)
    if recheck:
        if stretch is None or again or "kubernetes" in sources:
            raise click.UsageError(
                "--recheck counts the samples of --hours or a --period; it goes neither with "
                "--again nor with the journal, which does not change"
            )
        return _counted_again(opened, stretch, clusters, output)
    errors: list[LedgerError] = []
    with progress("Asking") as report:
        if stretch is None:
            attempts = _pull_due(opened, clusters, sources, report, errors)
        else:
            attempts = _named_hours(opened, stretch, clusters, sources, again, report, errors)
    nothing = "no hour is due" if stretch is None else "these hours are complete"
    exit_code = _show(attempts, output, f"No query was sent: {nothing}.")
    for error in errors[1:]:
        click.echo(error.message(), err=True)
    if errors:
        raise errors[0]
    return exit_code


def _named_hours(
    opened: OpenHome,
    hours: Interval,
    clusters: tuple[str, ...],
    sources: tuple[str, ...],
    again: bool,
    report: Progress,
    errors: list[LedgerError],
) -> list[Attempt]:
    from domain.decisions import Source
    from orchestration.steps import pull as pull_hours

    wanted = [Source(source) for source in sources]
    return pull_hours(
        opened,
        hours,
        clusters=clusters,
        sources=wanted,
        only_due=not again,
        progress=report,
        errors=errors,
    )


def _pull_due(
    opened: OpenHome,
    clusters: tuple[str, ...],
    sources: tuple[str, ...],
    report: Progress,
    errors: list[LedgerError],
) -> list[Attempt]:
    from orchestration.ledger import due_windows
    from orchestration.steps import pull_due_hours

    todo = [
        due
        for due in due_windows(opened)
        if (not clusters or due.cluster_id in clusters)
        and (not sources or due.source.value in sources)
    ]
    return pull_due_hours(opened, todo, report, errors)


def _counted_again(
    opened: OpenHome, hours: Interval, clusters: tuple[str, ...], output: str
) -> int:
    from orchestration.steps import recheck as count_again

    with progress("Counting again") as report:
        found = count_again(opened, hours, clusters=clusters, progress=report)
    for name, why in sorted(found.unanswered.items()):
        click.echo(f"Not counted: {name}: {why}", err=True)
    differ = "hour differs" if found.differing_count == 1 else "hours differ"
    click.echo(f"{found.differing_count} {differ} from what was landed.", err=True)
    exit_code = _show(list(found.attempts), output, "No hour was asked again.")
    return 3 if found.unanswered else exit_code


def _show(attempts: list[Attempt], output: str, empty: str) -> int:
    rows = [
        {
            "cluster_id": attempt.cluster_id,
            "source": attempt.source.value,
            "from": attempt.window.started_at,
            "until": attempt.window.ended_at,
            "outcome": attempt.outcome.value,
            "answers": len(attempt.answers),
            "bytes": sum(answer.byte_count for answer in attempt.answers),
        }
        for attempt in attempts
    ]
    emit(rows, output, empty=empty)
    return 0 if all(row["outcome"] == "ok" for row in rows) else 3
