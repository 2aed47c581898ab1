"""`gpu-ledger recount`: recalculate a closed period, and list its corrections.

Put here: the command.
Not here: the build (`warehouse.build`), or the differences (`billing.recount`).
"""

from __future__ import annotations

from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from domain.money import format_nanos
from orchestration.cli.output import emit, emit_document, home_option, output_option, progress
from orchestration.cli.time_arguments import NEWEST_CLOSED, period_argument, period_or_newest_closed
from orchestration.open_home import OpenHome
from orchestration.steps import recount as recount_period

SCHEMA = "gpu-ledger/recount/1"

RECOUNT_EPILOG = """\b
Examples:
  gpu-ledger recount 2026-10             the corrections; nothing is recorded
  gpu-ledger recount 2026-10 --record    record them; the next close bills them
"""


@click.command(epilog=RECOUNT_EPILOG)
@period_argument(NEWEST_CLOSED)
@click.option(
    "--dry-run/--record", default=True, show_default=True, help="Print or record the corrections."
)
@home_option
@output_option
def recount(period: BillingPeriod | None, dry_run: bool, home_path: Path, output: str) -> int:
    """Recalculate the closed PERIOD from all present evidence; compare it with the sealed facts.

    Uses the decisions that were sealed at its close, and amendments with two names. The closed
    facts, the invoices and the warehouse stay unchanged.
    """
    opened = OpenHome.at(home_path)
    period = period_or_newest_closed(opened, period)
    with progress("Recalculating") as report:
        result = recount_period(opened, period, dry_run=dry_run, progress=report)
    rows = [
        {
            "tenant": line.key.tenant,
            "gpu_class": line.key.gpu_class,
            "mig_profile": line.key.mig_profile,
            "seconds_before": line.seconds_before,
            "device_seconds_difference": line.device_seconds,
            "cost_difference": format_nanos(line.cost_nanos),
            "currency": result.currency,
            "reason": line.reason,
        }
        for line in result.lines
    ]
    if output == "json":
        emit_document(
            {
                "schema": SCHEMA,
                "period": period.name,
                "recorded": result.recorded,
                "difference": format_nanos(result.nanos),
                "currency": result.currency,
                "corrections": rows,
            }
        )
    elif rows or output == "csv":
        emit(rows, output, title=f"Corrections of {period}")
    else:
        click.echo(f"{period} was billed correctly; there is nothing to correct.")
    if rows and result.recorded:
        click.echo("Recorded; the next close bills them.", err=True)
    elif rows:
        click.echo("Nothing was recorded; --record does that.", err=True)
    return 0
