"""`gpu-ledger budgets` and `gpu-ledger alerts`: steps of budgets, and sending due alerts.

Put here: the commands, their rows and documents.
Not here: states and records (`orchestration.alerting`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from domain.billing_period import BillingPeriod
from domain.money import format_nanos
from orchestration import alerting
from orchestration.cli.output import (
    emit,
    emit_document,
    emit_result,
    home_option,
    output_option,
)
from orchestration.cli.time_arguments import period_argument
from orchestration.open_home import OpenHome
from orchestration.publishing import snapshot
from portal.consumption import pct_text
from warehouse.reports.opened_facts import open_facts
from warehouse.snapshots import BudgetStep

BUDGETS_SCHEMA = "gpu-ledger/budgets/1"
COLUMNS = (
    "tenant",
    "budget",
    "amount",
    "currency",
    "cost",
    "used_pct",
    "forecast",
    "step",
    "state",
    "reached_at",
    "delivered_at",
)
ALL_COLUMNS = (
    "billing_period",
    "tenant",
    "budget",
    "source",
    "workload_kind",
    "workload_name",
    "label_key",
    "label_value",
    "currency",
    "amount",
    "cost",
    "used_pct",
    "forecast",
    "forecast_method",
    "rate_per_hour",
    "spent_at",
    "counted_until",
    "kind",
    "step_pct",
    "state",
    "reached_at",
    "delivered_at",
)

BUDGETS_EPILOG = """\b
Examples:
  gpu-ledger budgets                              the newest month with facts
  gpu-ledger budgets 2026-10 --tenant vision
  gpu-ledger budgets --json | jq '.steps[] | select(.state != "not reached")'
"""


@click.command(epilog=BUDGETS_EPILOG)
@period_argument("A month; the same as PERIOD (default: the newest with facts).")
@click.option("--tenant", default="", help="Only this tenant.")
@home_option
@output_option
def budgets(period: BillingPeriod | None, tenant: str, home_path: Path, output: str) -> None:
    """List the budgets of tenants, workloads and labels, with the state of each step.

    Budgets are rows of decisions/budgets.csv and GpuBudgets, as they were at the last refresh.
    An actual step is reached at the end of the hour in which the cost reached that percentage of
    the amount. A forecast step is reached while the forecast is that high; it needs three days and
    a tenth of the month.
    """
    opened = OpenHome.at(home_path)
    with open_facts(opened.home, period.name if period else "") as facts:
        month = period or facts.newest
        states = alerting.states_of_month(facts, month)
    rows = [
        _row(one) for one in alerting.budget_steps(opened, states) if tenant in ("", one.tenant)
    ]
    if output == "json":
        steps = [{name: row[name] for name in ALL_COLUMNS} for row in rows]
        emit_document(
            {"schema": BUDGETS_SCHEMA, "of": month.name, "tenant": tenant, "steps": steps}
        )
        return
    columns = COLUMNS if output == "table" else ALL_COLUMNS
    whose = f" of {tenant}" if tenant else ""
    emit(rows, output, columns, f"Budgets, {month}", f"No budget{whose} is decided for {month}.")


def _row(step: BudgetStep) -> dict[str, Any]:
    used = pct_text(step.cost_nanos * 100, step.amount_nanos) if step.amount_nanos else ""
    return {
        "billing_period": step.billing_period,
        "tenant": step.tenant,
        "budget": step.budget,
        "source": step.source,
        "workload_kind": step.workload_kind,
        "workload_name": step.workload_name,
        "label_key": step.label_key,
        "label_value": step.label_value,
        "currency": step.currency,
        "amount": format_nanos(step.amount_nanos),
        "cost": format_nanos(step.cost_nanos),
        "used_pct": used,
        "forecast": format_nanos(step.forecast_nanos),
        "forecast_method": step.forecast_method,
        "rate_per_hour": format_nanos(step.rate_nanos_per_hour),
        "spent_at": step.spent_at,
        "counted_until": step.counted_until,
        "kind": step.step_kind,
        "step_pct": step.step_pct,
        "step": f"{step.step_kind} {step.step_pct} %",
        "state": step.state,
        "reached_at": step.reached_at,
        "delivered_at": step.delivered_at,
    }


@click.group()
def alerts() -> None:
    """Send alerts about budgets and the ledger to Alertmanager."""


SEND_EPILOG = """\b
Examples:
  gpu-ledger alerts send
  gpu-ledger alerts send --json
"""


@alerts.command(epilog=SEND_EPILOG)
@home_option
@output_option
def send(home_path: Path, output: str) -> int:
    """Post all due alerts to every Alertmanager of config.toml, and record them.

    Dagster runs the same every ten minutes. Each step of a budget causes one notification per
    month: its alert is posted until an Alertmanager has had it long enough to send the
    notification. The exit code is 1 if an Alertmanager did not accept the alerts.
    """
    opened = OpenHome.at(home_path)
    result = alerting.send(opened)
    if result.delivered or result.rearmed:
        snapshot(opened)
    done = {
        "posted": len(result.posted),
        "delivered": len(result.delivered),
        "rearmed": len(result.rearmed),
        "other_alerts": result.other_alert_count,
        "problems": len(result.problems),
    }
    sentence = (
        f"{done['posted']} budget steps posted, {done['delivered']} delivered, "
        f"{done['rearmed']} rearmed; {done['other_alerts']} other alerts posted."
    )
    emit_result(done, output, sentence)
    for problem in result.problems:
        click.echo(problem.message(), err=True)
    return 1 if result.problems else 0
