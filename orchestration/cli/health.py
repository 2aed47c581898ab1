"""`gpu-ledger health`: problems of GPUs and nodes, the affected pods, and proposed credits.

Put here: the command.
Not here: the definition of a problem (`dbt/`), or its rows (`warehouse.reports.health`).
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from domain.billing_period import BillingPeriod
from domain.csv_text import csv_text
from domain.interval import format_instant
from domain.money import format_nanos
from orchestration.cli.output import emit, emit_document, home_option, output_option
from orchestration.cli.time_arguments import newest_month_note, period_argument
from warehouse.home import Home
from warehouse.reports import health as report
from warehouse.reports.opened_facts import open_facts

SCHEMA = "gpu-ledger/health/1"
PROPOSAL = (
    "Proposed credits are the cost of pods in the hours in which a fault of the provider affected "
    "them. This command credits nothing. To approve a credit, append its row to "
    "decisions/outages.csv with decided_by and decided_on:"
)

EPILOG = """\b
Examples:
  gpu-ledger health                          problems of the newest month, and proposed credits
  gpu-ledger health 2026-10 --tenant vision
  gpu-ledger health 2026-10 --owners         status, idle time and cost by workload
  gpu-ledger health --json | jq '.problems[] | select(.is_fault_of_provider)'
"""


@click.command(epilog=EPILOG)
@period_argument("The month; the same as PERIOD (default: the newest one with facts).")
@click.option("--tenant", default="", help="Only problems that affected this tenant.")
@click.option("--owners", is_flag=True, help="List workloads instead of problems.")
@home_option
@output_option
def health(
    period: BillingPeriod | None, tenant: str, owners: bool, home_path: Path, output: str
) -> None:
    """List problems of GPUs and nodes, the affected pods and tenants, and proposed credits.

    XIDs, ECC errors and remapped rows, throttling, temperature, NVLink errors, devices that were
    not allocatable, nodes that were not ready, and parts of the GPU operator that were not ready.
    """
    with open_facts(Home.open(home_path), period.name if period else "") as facts:
        if period is None:
            period = facts.newest
            click.echo(newest_month_note(period), err=True)
        workloads = [_format_amounts(row) for row in report.owners(facts, period, tenant)]
        problems = report.problems(facts, period, tenant)
        proposed = [_format_amounts(row) for row in report.credits_proposed(facts, period)]
        outages = report.outages_proposed(facts, period, tenant)
    proposed = [row for row in proposed if tenant in ("", row["tenant"])]
    if output == "json":
        emit_document(
            {
                "schema": SCHEMA,
                "month": period.name,
                "tenant": tenant,
                "problems": problems,
                "proposed_credits": proposed,
                "proposed_outages": outages,
                "owners": workloads,
            }
        )
    elif owners:
        columns = [name.removesuffix("_nanos") for name in report.OWNER_COLUMNS]
        emit(workloads, output, columns, title=f"Workloads of {period}")
    else:
        title = f"Problems of {period}"
        empty = f"No problem of a GPU or node was seen in {period}."
        emit(problems, output, report.PROBLEM_COLUMNS, title=title, empty=empty)
        if proposed and output == "table":
            columns = [name.removesuffix("_nanos") for name in report.CREDIT_COLUMNS]
            emit(proposed, output, columns, title="Proposed credits")
            click.echo(PROPOSAL)
            click.echo(csv_text(report.OUTAGE_COLUMNS, map(_cells, outages)), nl=False)


def _cells(outage: dict[str, Any]) -> list[str]:
    """The cells of a decision table; a proposal has no approver."""
    return [
        format_instant(value) if isinstance(value := outage.get(name, ""), datetime) else value
        for name in report.OUTAGE_COLUMNS
    ]


def _format_amounts(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its columns `*_nanos` as decimal text, so that no digit is lost."""
    return {
        name.removesuffix("_nanos"): format_nanos(int(value)) if name.endswith("_nanos") else value
        for name, value in row.items()
    }
