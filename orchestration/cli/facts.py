"""`gpu-ledger refresh` and `check`: building a period's facts, and checking them.

Put here: the commands for facts.
Not here: building (`warehouse`), rules of check (`quality`).
"""

from __future__ import annotations

from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from orchestration import steps
from orchestration.cli.output import emit, emit_document, home_option, output_option, progress
from orchestration.cli.time_arguments import OLDEST_OPEN, period_argument, period_or_oldest_open
from orchestration.open_home import OpenHome
from orchestration.publishing import snapshot
from orchestration.steps import periods_to_refresh
from orchestration.steps import refresh as refresh_period

REFRESH_EPILOG = """\b
Examples:
  gpu-ledger refresh                      every open month with evidence
  gpu-ledger refresh --period 2026-10     also a closed one whose facts were lost
"""


@click.command(epilog=REFRESH_EPILOG)
@period_argument(
    "The month to rebuild; the same as PERIOD (default: every open one with evidence; else the "
    "newest open one)."
)
@home_option
@output_option
def refresh(period: BillingPeriod | None, home_path: Path, output: str) -> int:
    """Rebuild a period's facts, whole, from the landed evidence and the decisions.

    A closed period is refused while its facts exist. Lost facts are rebuilt from the sealed
    evidence and decisions, and are used only if they are identical.
    """
    opened = OpenHome.at(home_path)
    periods = [period] if period else periods_to_refresh(opened)
    if not periods:
        raise click.UsageError("nothing is measured in an open period: name one, --period 2026-10")
    if period is None:
        click.echo(f"No period was named; open: {', '.join(p.name for p in periods)}.", err=True)
    results = []
    for one in periods:
        with progress("Building facts") as report:
            results.append(refresh_period(opened, one, report))
    rows = [
        {"period": result.period.name, "table": name, "rows": count}
        for result in results
        for name, count in sorted(result.row_counts.items())
    ]
    emit(rows, output)
    for result in results:
        sha256 = result.facts_sha256
        click.echo(f"The facts of {result.period} have the hash {sha256}.", err=True)
    snapshot(opened)
    return 0


CHECK_EPILOG = """\b
Examples:
  gpu-ledger check                         the oldest open month
  gpu-ledger check 2026-10 -o json | jq '.findings[] | select(.blocks)'
"""


@click.command("check", epilog=CHECK_EPILOG)
@period_argument(OLDEST_OPEN)
@home_option
@output_option
def check_period(period: BillingPeriod | None, home_path: Path, output: str) -> int:
    """Check whether PERIOD can be closed, and list all findings.

    The exit code is 1 if a finding blocks the close.
    """
    opened = OpenHome.at(home_path)
    period = period_or_oldest_open(opened, period)
    with progress("Checking"):
        check_result = steps.check_period(opened, period)
    rows = [
        {
            "code": finding.code,
            "blocks": finding.blocks,
            "remedy": finding.remedy.value,
            "where": finding.where,
            "seen": finding.seen,
            "what_to_do": finding.what_to_do,
        }
        for finding in check_result.findings
    ]
    if output == "json":
        checks = [
            {
                "name": check.name,
                "evaluated_row_count": check.evaluated_row_count,
                "failed_row_count": check.failed_row_count,
            }
            for check in check_result.checks
        ]
        emit_document(
            {
                "period": period.name,
                "billable": check_result.billable,
                "facts_sha256": check_result.facts_sha256,
                "findings": rows,
                "checks": checks,
                "missing_checks": list(check_result.missing_checks),
            }
        )
    else:
        emit(rows, output, empty=f"Nothing was found: no finding is about {period}.")
    status = "may be billed" if check_result.billable else "may not be billed"
    click.echo(f"{period} {status}: {len(check_result.blocking)} findings block.", err=True)
    snapshot(opened)
    return 0 if check_result.billable else 1
