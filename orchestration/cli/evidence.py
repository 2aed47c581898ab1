"""`gpu-ledger pull` and `hours`: asking the witnesses, and what came of it.

Put here: the commands about evidence.
Not here: asking (`ingestion`), the collector (`orchestration.cli.collect`).
"""

from __future__ import annotations

from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from domain.interval import Interval
from orchestration.cli.output import emit, home_option, output_option, progress
from orchestration.cli.periods import HOURS, PERIOD

PULL_EPILOG = """\b
Examples:
  gpu-ledger pull --period 2026-10                         what is still missing of a month
  gpu-ledger pull --hours 2026-10-03T00..2026-10-03T06     six hours
  gpu-ledger pull --period 2026-10 --cluster CLUSTER_ID --again
"""


@click.command(epilog=PULL_EPILOG)
@click.option("--hours", "window", type=HOURS, help="Whole hours A..B, B not included.")
@click.option("--period", type=PERIOD, help="All hours of a month.")
@click.option("--cluster", "clusters", multiple=True, help="Only this cluster ID (repeatable).")
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=click.Choice(["thanos", "kubernetes"]),
    help="Only this witness.",
)
@click.option("--again", is_flag=True, help="Ask also for hours that were answered completely.")
@home_option
@output_option
def pull(
    window: Interval | None,
    period: BillingPeriod | None,
    clusters: tuple[str, ...],
    sources: tuple[str, ...],
    again: bool,
    home_path: Path,
    output: str,
) -> int:
    """Ask the witnesses for hours, and land exactly what they say.

    Every asking is kept as an attempt, whether it worked or not. Exit 3 when one did not.
    """
    from domain.decisions import Source
    from orchestration.open_home import OpenHome
    from orchestration.steps import pull as pull_hours

    if (window is None) == (period is None):
        raise click.UsageError("give either --hours or --period")
    with progress("Asking") as report:
        attempts = pull_hours(
            OpenHome.at(home_path),
            window or period.interval,  # type: ignore[union-attr]
            clusters=clusters,
            sources=[Source(source) for source in sources],
            only_debts=not again,
            progress=report,
        )
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
    emit(rows, output)
    return 0 if all(row["outcome"] == "ok" for row in rows) else 3


HOURS_EPILOG = """\b
Examples:
  gpu-ledger hours 2026-10                 hours that are not complete
  gpu-ledger hours 2026-10 --all -o csv
"""


@click.command(epilog=HOURS_EPILOG)
@click.argument("period", type=PERIOD)
@click.option("--all", "show_all", is_flag=True, help="Complete hours, too.")
@home_option
@output_option
def hours(period: BillingPeriod, show_all: bool, home_path: Path, output: str) -> int:
    """List what the calendar expects of a period against the attempts that were made."""
    from ingestion.hours import hour_ledger
    from orchestration.open_home import OpenHome

    opened = OpenHome.at(home_path)
    expected = opened.decisions.expected_hours(period.interval)
    now = opened.clock.now()
    rows = []
    for entry in hour_ledger(expected, opened.landing.attempts()):
        best = entry.best
        rows.append(
            {
                "cluster_id": entry.cluster_id,
                "source": entry.source.value,
                "hour": entry.hour_started_at,
                "attempts": len(entry.told),
                "outcome": best.outcome.value if best else "never asked",
                "reason": best.hour.reason if best else "",
                "samples": best.hour.sample_count if best else 0,
                "can_heal": entry.healable(now),
            }
        )
    emit([row for row in rows if show_all or row["outcome"] != "ok"], output)
    return 0
