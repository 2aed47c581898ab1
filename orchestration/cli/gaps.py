"""`gpu-ledger gaps` and `accept-gap`: list the gaps of a period, and accept one.

Put here: the commands for gaps.
Not here: finding gaps (`quality`), or their effect on an amount (`dbt/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.interval import format_instant
from domain.money import format_estimate, format_nanos
from orchestration.cli.output import emit, emit_result, home_option, output_option
from orchestration.cli.time_arguments import INSTANT, newest_month_note, period_argument
from orchestration.home_lock import url_of_web_ui
from orchestration.open_home import OpenHome
from orchestration.steps import ACCEPTED_GAPS, accept_gaps
from quality.coverage import GapReport
from quality.gap_findings import command
from quality.run import list_gaps
from warehouse.reports.opened_facts import newest_period

LINKS_LIMIT = 24
"""Most links; the page of partitions shows the other gaps."""

GAPS_EPILOG = """\b
Examples:
  gpu-ledger gaps                                         of the newest month with facts
  gpu-ledger gaps 2026-10 -o json | jq -r '.[].command'
"""


@click.command(epilog=GAPS_EPILOG)
@period_argument("The month; the same as PERIOD.")
@home_option
@output_option
def gaps(period: BillingPeriod | None, home_path: Path, output: str) -> int:
    """List the gaps of PERIOD: time, cause, affected pods, and the command that backfills each.

    PERIOD defaults to the newest month with facts. Adjacent hours of one cluster and source are one
    row. Affected pods are those of the gap's hours and of the hour before: names in JSON, a count
    elsewhere. While `gpu-ledger up` runs, each gap has a link to its hour in the Dagster UI.
    """
    opened = OpenHome.at(home_path)
    if period is None:
        period = newest_period(opened.home)
        click.echo(newest_month_note(period), err=True)
    reports = list_gaps(opened.home, period, opened.decisions, opened.clock)
    for_people = output == "table"
    last_second = period.interval.ended_at - timedelta(seconds=1)
    currency = opened.decisions.currency(last_second) or ""
    rows = [
        {
            "cluster_id": report.cluster_id,
            "from": report.interval.started_at,
            "until": report.interval.ended_at,
            "sources": ", ".join(report.sources),
            "cause": "; ".join(report.reasons),
            "tenants": ", ".join(report.tenants),
            "pods": list(report.pods) if output == "json" else len(report.pods),
            "at_stake": format_estimate(report.nanos, currency)
            if for_people and currency
            else format_nanos(report.nanos),
            "currency": currency,
            "accepted_by": report.acceptance.decided_by if report.acceptance else "",
            "command": command(report),
        }
        for report in reports
    ]
    aside = ("currency", "command") if for_people else ()
    columns = [name for name in rows[0] if name not in aside] if rows else []
    emit(rows, output, columns, empty=_empty_text(opened, period))
    if for_people:
        _print_commands([str(row["command"]) for row in rows])
        _print_links(opened, reports)
    return 0


def _empty_text(opened: OpenHome, period: BillingPeriod) -> str:
    if not opened.decisions.expected_hours(period.interval):
        return f"No cluster is measured in {period}, by decisions/clusters.csv."
    return f"No gaps: every counted hour of {period} is complete."


def _print_commands(commands: list[str]) -> None:
    """Print each command on a line of its own, so that it can be copied."""
    if any(commands):
        click.echo("Backfill or accept:")
    for line in dict.fromkeys(filter(None, commands)):
        click.echo(f"  {line}")


def _print_links(opened: OpenHome, reports: Sequence[GapReport]) -> None:
    """Print a link to the first hour of each gap and source, while `gpu-ledger up` runs."""
    if not reports or not (url := url_of_web_ui(opened.home.dagster)):
        return

    # Imports Dagster, 1 s, only where there are links to print.
    from orchestration.dagster_code.hour_events import evidence_keys
    from orchestration.dagster_code.ui_links import partition_link

    keys = evidence_keys(opened.decisions.clusters)
    click.echo("In the Dagster web UI:")
    for report in reports[:LINKS_LIMIT]:
        for source in map(Source, report.sources):
            if key := keys.get((report.cluster_id, source)):
                click.echo(f"  {url}{partition_link(key, report.hours.started_at)}")
    if len(reports) > LINKS_LIMIT:
        click.echo(f"  and {len(reports) - LINKS_LIMIT} more gaps: {url}/assets")


ACCEPT_EPILOG = """\b
Examples:
  gpu-ledger accept-gap --cluster CLUSTER_ID --source kubernetes \\
      --from 2026-10-09T10:00:00Z --to 2026-10-09T12:00:00Z \\
      --treatment bill_nothing --reason "collector upgrade" --by "Ada Example"
"""


@click.command("accept-gap", epilog=ACCEPT_EPILOG)
@click.option("--cluster", "cluster_id", required=True, help="The cluster's ID.")
@click.option("--source", type=click.Choice(["thanos", "kubernetes"]), required=True)
@click.option(
    "--from", "started", type=INSTANT, required=True, help="First instant of the gap, in UTC."
)
@click.option(
    "--to", "ended", type=INSTANT, required=True, help="First instant after the gap, in UTC."
)
@click.option(
    "--treatment",
    type=click.Choice(["bill_lifecycle", "bill_samples", "bill_nothing", "waive"]),
    required=True,
    help="Treatment of the gap on invoices.",
)
@click.option("--pod", "pod_uid", default="", help="UID of the only pod concerned.")
@click.option("--reason", required=True, help="Reason, printed on invoices.")
@click.option("--by", "decided_by", required=True, help="Name of the person who accepts the gap.")
@home_option
@output_option
def accept_gap(
    cluster_id: str,
    source: str,
    started: datetime,
    ended: datetime,
    treatment: str,
    pod_uid: str,
    reason: str,
    decided_by: str,
    home_path: Path,
    output: str,
) -> None:
    """Accept a gap: add a dated row to decisions/accepted_gaps.csv.

    An invalid row is refused, and the table stays unchanged.
    """
    opened = OpenHome.at(home_path)
    row = {
        "cluster_id": cluster_id,
        "source": source,
        "started_at": format_instant(started),
        "ended_at": format_instant(ended),
        "treatment": treatment,
        "pod_uid": pod_uid,
        "reason": reason,
        "decided_by": decided_by,
    }
    path = opened.home.decisions / ACCEPTED_GAPS
    is_new = accept_gaps(opened, [row])
    emit_result(
        {"is_new": is_new, "table": str(path), **row},
        output,
        f"Accepted in {path}; it takes effect with the next `gpu-ledger refresh`."
        if is_new
        else f"This gap was accepted before; {path} is unchanged.",
    )
