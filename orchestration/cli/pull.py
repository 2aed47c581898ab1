"""`gpu-ledger pull`: query the sources.

Put here: the choice of hours, and the table of new attempts.
Not here: the queries (`ingestion`), earlier attempts (`hours`), the collector (`collect`).
"""

from __future__ import annotations

from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.errors import LedgerError
from domain.interval import Interval
from orchestration.cli.output import emit, home_option, output_option, progress
from orchestration.cli.time_arguments import HOURS, period_argument
from orchestration.open_home import OpenHome
from orchestration.open_hours import due_windows, open_entries
from orchestration.steps import pull as pull_hours
from orchestration.steps import pull_due_hours
from orchestration.steps import recheck as recheck_hours
from warehouse.manifest import Attempt

PULL_EPILOG = """\b
Examples:
  gpu-ledger pull                                          all due hours
  gpu-ledger pull --period 2026-10                         the due hours of a month
  gpu-ledger pull --hours 2026-10-03T00..2026-10-03T06     six hours
  gpu-ledger pull --period 2026-10 --cluster CLUSTER_ID --all
  gpu-ledger pull --period 2026-10 --recheck               samples that arrived late, before a close
"""


@click.command(epilog=PULL_EPILOG)
@period_argument("All hours of a month; the same as PERIOD.")
@click.option("--hours", "window", type=HOURS, help="Whole hours A..B, B not included.")
@click.option("--cluster", "clusters", multiple=True, help="Only this cluster ID (repeatable).")
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=click.Choice(["thanos", "kubernetes"]),
    help="Only this source.",
)
@click.option("--all", "all_hours", is_flag=True, help="Also query hours that are complete.")
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
    all_hours: bool,
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
    if window is not None and period is not None:
        raise click.UsageError("give --hours or a month, not both")
    window = window or (period.interval if period else None)
    opened = OpenHome.at(home_path)
    if recheck:
        if window is None or all_hours or "kubernetes" in sources:
            raise click.UsageError(
                "--recheck compares the sample counts of --hours or of a month; it excludes "
                "--all and --source kubernetes, because a journal does not change"
            )
        return _recheck(opened, window, clusters, output)
    errors: list[LedgerError] = []
    with progress("Pulling") as report:
        if window is None:
            due = [
                one
                for one in due_windows(opened, open_entries(opened))
                if (not clusters or one.cluster_id in clusters)
                and (not sources or one.source.value in sources)
            ]
            attempts = pull_due_hours(opened, due, report, errors)
        else:
            attempts = pull_hours(
                opened,
                window,
                clusters=clusters,
                sources=[Source(source) for source in sources],
                only_due=not all_hours,
                progress=report,
                errors=errors,
            )
    nothing = "no hour is due" if window is None else "these hours are complete"
    exit_code = _show(attempts, output, f"No query was sent: {nothing}.")
    for error in errors[1:]:
        click.echo(error.message(), err=True)
    if errors:
        raise errors[0]
    return exit_code


def _recheck(opened: OpenHome, hours: Interval, clusters: tuple[str, ...], output: str) -> int:
    with progress("Comparing counts") as report:
        found = recheck_hours(opened, hours, clusters=clusters, progress=report)
    for name, why in sorted(found.unanswered.items()):
        click.echo(f"Not compared: {name}: {why}", err=True)
    differ = "hour differs" if found.differing_count == 1 else "hours differ"
    click.echo(f"{found.differing_count} {differ} from landed evidence.", err=True)
    exit_code = _show(list(found.attempts), output, "No hour was pulled again.")
    return 3 if found.unanswered else exit_code


def _show(attempts: list[Attempt], output: str, empty: str) -> int:
    rows = [
        {
            "cluster_id": attempt.cluster_id,
            "source": attempt.source.value,
            "from": attempt.window.started_at,
            "until": attempt.window.ended_at,
            "outcome": attempt.outcome.value,
            "responses": len(attempt.answers),
            "bytes": sum(answer.byte_count for answer in attempt.answers),
        }
        for attempt in attempts
    ]
    emit(rows, output, empty=empty)
    return 0 if all(row["outcome"] == "ok" for row in rows) else 3
