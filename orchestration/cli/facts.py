"""`gpu-ledger refresh` and `judge`: building a period's facts, and judging them.

Put here: the commands about facts.
Not here: building (`warehouse`), rules of judgement (`quality`).
"""

from __future__ import annotations

from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from orchestration.cli.output import emit, emit_document, home_option, output_option, progress
from orchestration.cli.periods import PERIOD

REFRESH_EPILOG = """\b
Examples:
  gpu-ledger refresh --period 2026-10
"""


@click.command(epilog=REFRESH_EPILOG)
@click.option("--period", type=PERIOD, required=True, help="The month to rebuild.")
@home_option
@output_option
def refresh(period: BillingPeriod, home_path: Path, output: str) -> int:
    """Rebuild a period's facts, whole, from the landed evidence and the decisions."""
    from orchestration.open_home import OpenHome
    from orchestration.steps import refresh as refresh_period

    with progress("Counting") as report:
        result = refresh_period(OpenHome.at(home_path), period, report)
    rows = [{"table": name, "rows": count} for name, count in sorted(result.row_counts.items())]
    emit(rows, output)
    click.echo(f"The facts of {period} have the hash {result.facts_sha256}.", err=True)
    return 0


JUDGE_EPILOG = """\b
Examples:
  gpu-ledger judge 2026-10
  gpu-ledger judge 2026-10 -o json | jq '.findings[] | select(.blocks)'
"""


@click.command(epilog=JUDGE_EPILOG)
@click.argument("period", type=PERIOD)
@home_option
@output_option
def judge(period: BillingPeriod, home_path: Path, output: str) -> int:
    """Say whether PERIOD may be billed, and everything that stands against it.

    Exit 1 when it may not.
    """
    from orchestration.open_home import OpenHome
    from orchestration.steps import judge as judge_period

    with progress("Judging"):
        judgement = judge_period(OpenHome.at(home_path), period)
    rows = [
        {
            "code": finding.code,
            "blocks": finding.blocks,
            "remedy": finding.remedy.value,
            "where": finding.where,
            "seen": finding.seen,
            "what_to_do": finding.what_to_do,
        }
        for finding in judgement.findings
    ]
    if output == "json":
        checks = [
            {
                "name": check.name,
                "evaluated_row_count": check.evaluated_row_count,
                "failed_row_count": check.failed_row_count,
            }
            for check in judgement.checks
        ]
        emit_document(
            {
                "period": period.name,
                "billable": judgement.billable,
                "facts_sha256": judgement.facts_sha256,
                "findings": rows,
                "checks": checks,
                "missing_checks": list(judgement.missing_checks),
            }
        )
    else:
        emit(rows, output)
    verdict = "may be billed" if judgement.billable else "may not be billed"
    click.echo(f"{period} {verdict}: {len(judgement.blocking)} findings block.", err=True)
    return 0 if judgement.billable else 1
