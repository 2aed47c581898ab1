"""`gpu-ledger nodes`: active worker nodes and GPUs per hour, for programme reports.

Put here: the command.
Not here: the counts (`dbt/`), or the sealed report of a closed month (`billing.ccsp`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from orchestration.cli.output import emit, emit_document, home_option, output_option
from orchestration.cli.time_arguments import HOUR_STARTED, newest_month_note, period_argument
from warehouse.home import Home
from warehouse.reports import nodes as report
from warehouse.reports.opened_facts import open_facts

SCHEMA = "gpu-ledger/nodes/1"

NODES_EPILOG = """\b
Examples:
  gpu-ledger nodes --hour 2026-10-09T14          active nodes, and the pods of the maximum
  gpu-ledger nodes 2026-10 --csv > october.csv
  gpu-ledger nodes --hour 2026-10-09T14 --json | jq '.nodes[] | {node_name, gpu_count_max}'
"""

LEGEND = (
    "gpu_count_max: cards with a running pod, the most at any instant of the hour. "
    "sum_of_node_max adds the nodes' maxima; simultaneous_max is the most at one instant."
)
BOUND_LEGEND = (
    "how_known: by_devices is exact, card by card. Otherwise the cards of some slices are "
    "unknown, and the number is a lower bound: the fewest cards that can hold them."
)
LOWER = (
    "is_lower_bound: the journal has a gap in this hour, so a pod between two samples is missed."
)
BOUND = "_bound"
IS_LOWER_BOUND = "is_lower_bound"


@click.command(epilog=NODES_EPILOG)
@period_argument(
    "Every expected hour of a month; the same as PERIOD (default: the newest one with facts)."
)
@click.option("--hour", type=HOUR_STARTED, help="One hour, by its start, in UTC.")
@home_option
@output_option
def nodes(
    period: BillingPeriod | None, hour: datetime | None, home_path: Path, output: str
) -> None:
    """List active worker nodes, the most GPUs per node, and the pods of that maximum.

    An hour that was not measured is listed and marked, and has no number.
    """
    if hour is not None and period is not None:
        raise click.UsageError("give either --hour 2026-10-09T14 or a month, 2026-10")
    asked = BillingPeriod.containing(hour) if hour else period
    with open_facts(Home.open(home_path), asked.name if asked else "") as facts:
        if asked is None:
            period = facts.newest
            click.echo(newest_month_note(period), err=True)
        if period is not None:
            rows = report.node_month(facts, period)
        else:
            assert hour is not None
            clusters, rows = report.cluster_hour(facts, hour), report.node_hour(facts, hour)
    if period is not None:
        if output == "json":
            emit_document({"schema": SCHEMA, "month": period.name, "hours": rows})
            return
        if not rows and output == "table":
            click.echo(f"No cluster is measured in {period}, by decisions/clusters.csv.")
            return
        columns = (
            report.MONTH_COLUMNS
            if output == "csv"
            else _columns_to_show(report.MONTH_COLUMNS, rows)
        )
        emit(rows, output, columns, title=f"Node-hours of {period}")
        click.echo(unmeasured_note(rows), err=True)
        if output == "table" and IS_LOWER_BOUND in columns:
            click.echo(LOWER, err=True)
        return
    if output == "json":
        emit_document({"schema": SCHEMA, "hour": hour, "clusters": clusters, "nodes": rows})
        return
    if output == "csv":
        emit(rows, output, report.NODE_COLUMNS)
        return
    if not clusters:
        click.echo("No cluster is measured in this hour; see `gpu-ledger hours`.")
        return
    emit(clusters, output, _columns_to_show(report.CLUSTER_COLUMNS, clusters), title="Clusters")
    emit(rows, output, _columns_to_show(report.NODE_COLUMNS, rows), title="Nodes")
    click.echo(f"{LEGEND} {BOUND_LEGEND}")
    if any(row[IS_LOWER_BOUND] for row in clusters):
        click.echo(LOWER)


def _columns_to_show(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The columns for a table: a bound only where it differs from the number."""
    bounds = {
        name: name.removesuffix(BOUND)
        for name in columns
        if name.endswith(BOUND) and name != IS_LOWER_BOUND
    }
    same = {b for b, n in bounds.items() if all(row[b] == row[n] for row in rows)}
    if not any(row.get(IS_LOWER_BOUND) for row in rows):
        same.add(IS_LOWER_BOUND)
    return [name for name in columns if name not in same]


def unmeasured_note(rows: Sequence[Mapping[str, object]]) -> str:
    """A sentence with the hours that were not measured, or only in part."""
    hours = {(row["cluster_name"], row["hour_started_at"], row["measurement"]) for row in rows}
    counted = Counter(str(measurement) for *_, measurement in hours)
    words = f"{counted['not measured']} hours were not measured; they have no number."
    if part := counted["measured in part"]:
        words += f" {part} were measured in part: their numbers cover that part."
    return words
