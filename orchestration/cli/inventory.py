"""`gpu-ledger inventory` and `quota`: devices with their holders, and quotas with their use.

Put here: the two commands.
Not here: the evidence for devices and quotas (`dbt/`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, format_instant, hour_of
from orchestration.cli.output import emit, emit_document, home_option, output_option
from orchestration.cli.time_arguments import INSTANT, period_argument
from warehouse.home import Home
from warehouse.reports import inventory as inventory_report
from warehouse.reports import quotas as quota_report
from warehouse.reports.opened_facts import Facts, open_facts

INVENTORY_SCHEMA = "gpu-ledger/inventory/1"
QUOTA_SCHEMA = "gpu-ledger/quota/1"

INVENTORY_EPILOG = """\b
Examples:
  gpu-ledger inventory                              at the end of the newest facts
  gpu-ledger inventory --at 2026-10-09T14:30:00Z
  gpu-ledger inventory --json | jq '.devices[] | select(.held_by == "")'
"""


@click.command(epilog=INVENTORY_EPILOG)
@click.option("--at", type=INSTANT, help="An instant, in UTC.")
@home_option
@output_option
def inventory(at: datetime | None, home_path: Path, output: str) -> None:
    """List every card and MIG instance with the pod that held it at an instant.

    The number of devices of a pod comes from the Kubernetes API; which devices they are comes from
    telemetry or a claim. The column holder_known_by names the evidence.
    """
    with open_facts(Home.open(home_path)) as facts:
        instant = at or _last_second(inventory_report.last_counted_hour(facts), facts)
        capacity, devices = (
            inventory_report.capacity(facts, instant),
            inventory_report.devices(facts, instant),
        )
    if output == "json":
        emit_document(
            {
                "schema": INVENTORY_SCHEMA,
                "at": instant,
                "capacity": capacity,
                "devices": devices,
            }
        )
        return
    if output == "csv":
        emit(devices, output, inventory_report.DEVICE_COLUMNS)
        return
    if not capacity and not devices:
        click.echo(f"No device is known at {format_instant(instant)}: no node was seen then.")
        return
    emit(
        capacity,
        output,
        inventory_report.CAPACITY_COLUMNS,
        title=f"Capacity, {format_instant(instant)}",
    )
    counted = any(device["device_count"] != 1 for device in devices)
    published = any(device["device_name"] for device in devices)
    left_out = {"holder_known_by"} | (set() if counted else {"device_count"})
    left_out |= set() if published else {"device_name"}
    columns = [name for name in inventory_report.DEVICE_COLUMNS if name not in left_out]
    emit(devices, output, columns, title="Devices")


QUOTA_EPILOG = """\b
Examples:
  gpu-ledger quota                                  the newest hour with a quota
  gpu-ledger quota --at 2026-10-09T14 --tenant vision
  gpu-ledger quota --period 2026-10 --csv > quotas.csv
"""


@click.command(epilog=QUOTA_EPILOG)
@period_argument("Every hour of a month; the same as PERIOD.")
@click.option("--tenant", default="", help="Only this tenant.")
@click.option("--at", type=INSTANT, help="The hour of this instant, in UTC.")
@home_option
@output_option
def quota(
    period: BillingPeriod | None,
    tenant: str,
    at: datetime | None,
    home_path: Path,
    output: str,
) -> None:
    """List quotas of tenants: limit, use by Kubernetes, and the largest allocation of the hour."""
    if at is not None and period is not None:
        raise click.UsageError("give --at or a month, not both")
    with open_facts(Home.open(home_path)) as facts:
        newest = quota_report.last_hour_of_quotas(facts)
        hour = hour_of(at) if at else newest
        if period is not None:
            rows = quota_report.quotas_of_month(facts, period, tenant)
        else:
            rows = quota_report.quotas_of_hour(facts, hour, tenant) if hour else []
    columns = quota_report.MONTH_COLUMNS if period else quota_report.COLUMNS
    asked = period.name if period else format_instant(hour) if hour else "any hour"
    if output == "json":
        emit_document({"schema": QUOTA_SCHEMA, "of": asked, "tenant": tenant, "quotas": rows})
        return
    if rows or output == "csv":
        emit(rows, output, columns, title=f"Quotas, {asked}")
        return
    whose = f"of {tenant} " if tenant else ""
    seen = f"the newest hour with one is {format_instant(newest)}" if newest else "no hour has one"
    click.echo(f"No quota {whose}for GPUs was seen in {asked}; {seen}.")


def _last_second(hour: datetime | None, facts: Facts) -> datetime:
    """The last second of the facts, at which pods that ended then are still listed."""
    if hour is None:
        return facts.newest.ended_at - timedelta(seconds=1)
    return hour + HOUR - timedelta(seconds=1)
