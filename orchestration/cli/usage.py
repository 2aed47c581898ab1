"""`gpu-ledger usage`: print usage and cost of a month or between two instants.

Put here: the command, units, and amounts in cents beside exact ones.
Not here: the sums (`warehouse.reports.usage`).

Amounts in cents are rounded as on an invoice: a tenant's exact sum is rounded once and apportioned
to its rows, so that the rows of a tenant add up to its invoice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from domain.billing_period import BillingPeriod
from domain.interval import Interval, format_instant
from domain.money import divide_rounding_half_even, format_nanos, minor_unit_digits
from orchestration.cli.output import emit, emit_document, home_option, output_option
from orchestration.cli.time_arguments import (
    INSTANT,
    newest_month_note,
    period_argument,
    window_of,
)
from orchestration.open_home import OpenHome
from portal.consumption import amount_text, per_hour_of_day
from warehouse.home import Home
from warehouse.reports.opened_facts import Facts, open_facts
from warehouse.reports.usage import (
    LABEL,
    UsageGroup,
    burn_rates,
    counted_window,
    journal_is_uncertain,
    kept_labels,
    outage_credits,
    rounded_costs,
    tenants_with_use,
)
from warehouse.reports.usage import usage as read_usage

SCHEMA = "gpu-ledger/usage/1"
BURN_RATES_SCHEMA = "gpu-ledger/burn-rates/1"
UNITS = {"hours": 3600, "minutes": 60, "seconds": 1}

USAGE_EPILOG = """\b
Examples:
  gpu-ledger usage                                            every tenant, the newest month
  gpu-ledger usage --period 2026-10 --tenant vision --by workload
  gpu-ledger usage --from 2026-10-09 --to 2026-10-10 --by hour --unit minutes
  gpu-ledger usage --burn-rate --by pod --tenant vision
  gpu-ledger usage --period 2026-10 --by label:team --json | jq '.rows[]'
"""


@click.command(epilog=USAGE_EPILOG)
@period_argument("A whole month; the same as PERIOD (default: the newest with facts).")
@click.option("--tenant", default="", help="Only this tenant.")
@click.option("--from", "started", type=INSTANT, help="First second, in UTC.")
@click.option("--to", "ended", type=INSTANT, help="First second after the window, in UTC.")
@click.option(
    "--by",
    default="",
    help="tenant, cluster, pod, workload, class, profile, day, hour, several of them "
    "(day,class), or label:KEY (default: tenant; of one tenant, workload).",
)
@click.option(
    "--unit",
    type=click.Choice(list(UNITS)),
    default="hours",
    show_default=True,
    help="Unit of time.",
)
@click.option(
    "--burn-rate",
    is_flag=True,
    help="Cost of the last complete hour by workload or pod, instead of usage.",
)
@click.option("--provider", is_flag=True, help="The provider's own use instead of the tenants'.")
@home_option
@output_option
def usage(
    period: BillingPeriod | None,
    tenant: str,
    started: datetime | None,
    ended: datetime | None,
    by: str,
    unit: str,
    burn_rate: bool,
    provider: bool,
    home_path: Path,
    output: str,
) -> None:
    """Print usage and cost of a month, or between two instants.

    `device` time counts every device as one; `weighted` time counts a slice as the part of a card
    that is billed. `cost` is exact; `rounded_cost` is in cents, as an invoice rounds it.

    If --from or --to is inside an hour, the cost of the hour is divided in proportion to the
    seconds.
    """
    asked = window_of(period, started, ended)
    if burn_rate:
        if started or provider:
            raise click.UsageError("--burn-rate cannot be combined with --from or --provider")
        _emit_burn_rates(home_path, period, tenant, by or "workload", output)
        return
    by = by or ("workload" if tenant else "tenant")
    home = Home.open(home_path)
    wanted = BillingPeriod.containing(asked.started_at).name if asked else ""
    with open_facts(home, wanted) as facts:
        window = asked or facts.newest.interval
        found = read_usage(facts, window, by, tenant=tenant, of_provider=provider)
        periods = facts.require(window)
        notes = _notes(facts, window, found, tenant, provider)
        label_notes = _label_notes(facts, periods, by)
        notes += label_notes
        notes += [] if asked else [newest_month_note(facts.newest)]
    final = set(periods) <= OpenHome.at(home_path).record.closed_periods()
    rows = _rows(found, unit)
    if output == "json":
        emit_document(
            {
                "schema": SCHEMA,
                "from": window.started_at,
                "to": window.ended_at,
                "tenant": tenant,
                "by": by,
                "unit": unit,
                "amounts": "final" if final else "estimated",
                "rows": rows,
                "totals": _totals(found, unit),
                "notes": notes,
            }
        )
        return
    columns = [name for name in (rows[0] if rows else ()) if not name.endswith("_exact")]
    if output == "csv":
        emit(rows, output, columns)
        for note in label_notes:
            click.echo(note, err=True)
        if not asked:
            click.echo(notes[-1], err=True)
        return
    if rows:
        emit(_align_amounts(rows), output, columns, title=f"Usage by {by}, {_span(window)}")
    for total in _totals(found, unit):
        click.echo(_total_line(total, unit, final=final))
    for note in notes:
        click.echo(note)


def _emit_burn_rates(
    home_path: Path, period: BillingPeriod | None, tenant: str, by: str, output: str
) -> None:
    """Cost of the last complete hour and the mean of the 24 until its end, as in the portal."""
    with open_facts(Home.open(home_path), period.name if period else "") as facts:
        month = period or facts.newest
        found = burn_rates(facts, month.name, by, tenant)
    rows = []
    for row in found:
        currency = row["currency"]
        last_hour, last_day = row.pop("last_hour_cost_nanos"), row.pop("last_day_cost_nanos")
        row["burn_rate_per_hour"] = amount_text(int(last_hour), currency)
        row["last_day_per_hour"] = amount_text(per_hour_of_day(int(last_day)), currency)
        rows.append(row)
    notes = [] if period else [newest_month_note(month)]
    if output == "json":
        emit_document(
            {
                "schema": BURN_RATES_SCHEMA,
                "period": month.name,
                "tenant": tenant,
                "by": by,
                "rows": rows,
                "notes": notes,
            }
        )
        return
    empty = f"Nothing with a price ran in the 24 hours until the last complete one of {month}."
    emit(rows, output, title=f"Burn rate by {by}, {month}", empty=empty)
    for note in notes:
        click.echo(note, err=True)


def _rows(found: Sequence[UsageGroup], unit: str) -> list[dict[str, Any]]:
    cents = rounded_costs(found)
    return [
        {"tenant": row.tenant, **dict(row.about), "pods": row.pod_count}
        | _quantities(row.device_seconds, row.weighted_device_seconds, unit)
        | {
            "cost": _nanos(row.cost_nanos, row.currency),
            "rounded_cost": _nanos(rounded, row.currency, digits=True),
            "currency": row.currency,
        }
        for row, rounded in zip(found, cents, strict=True)
    ]


def _quantities(device_seconds: int, weighted: Any, unit: str) -> dict[str, Any]:
    return {
        f"device_{unit}": _in_unit(device_seconds, unit),
        f"weighted_{unit}": _in_unit(weighted, unit),
        "device_seconds_exact": device_seconds,
        "weighted_seconds_exact": str(weighted),
    }


def _in_unit(seconds: Any, unit: str) -> Any:
    """Whole device-seconds unchanged; other quantities with two decimals, as on invoices."""
    if unit == "seconds" and getattr(seconds, "denominator", 1) == 1:
        return int(seconds)
    scaled = seconds * 100
    hundredths = divide_rounding_half_even(scaled.numerator, scaled.denominator * UNITS[unit])
    return Decimal(hundredths).scaleb(-2)


def _nanos(nanos: int, currency: str, *, digits: bool = False) -> str:
    if not currency:
        return ""
    text = format_nanos(nanos)
    if not digits or not (decimals := minor_unit_digits(currency)):
        return text
    whole, _, part = text.partition(".")
    return f"{whole}.{part:0<{decimals}}"


def _align_amounts(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with as many decimals in each amount as the longest has."""
    longest = max((len(str(row["cost"]).partition(".")[2]) for row in rows), default=0)
    return [
        {
            **row,
            "cost": Decimal(row["cost"]).quantize(Decimal(1).scaleb(-longest)),
            "rounded_cost": Decimal(row["rounded_cost"]),
        }
        if row["currency"]
        else row
        for row in rows
    ]


def _totals(found: Sequence[UsageGroup], unit: str) -> list[dict[str, Any]]:
    """One total per currency; rounded costs are sums of the tenants' rounded costs."""
    cents = rounded_costs(found)
    return [
        _quantities(
            sum(row.device_seconds for row in found if row.currency == currency),
            sum((row.weighted_device_seconds for row in found if row.currency == currency), 0),
            unit,
        )
        | {
            "cost": _nanos(
                sum(row.cost_nanos for row in found if row.currency == currency), currency
            ),
            "rounded_cost": _nanos(
                sum(c for row, c in zip(found, cents, strict=True) if row.currency == currency),
                currency,
                digits=True,
            ),
            "currency": currency,
        }
        for currency in sorted({row.currency for row in found})
    ]


def _total_line(total: dict[str, Any], unit: str, *, final: bool) -> str:
    time = f"{total[f'device_{unit}']} device {unit}, {total[f'weighted_{unit}']} weighted"
    if not total["currency"]:
        return f"In all {time}, without a price."
    status = "final" if final else "estimated: the period is not closed"
    return f"In all {time}, {total['rounded_cost']} {total['currency']} ({status})."


def _span(window: Interval) -> str:
    return f"{format_instant(window.started_at)} to {format_instant(window.ended_at)}"


def _label_notes(facts: Facts, periods: Sequence[str], by: str) -> list[str]:
    """A note if no pod has the label: it may be absent, or not kept."""
    key = by.removeprefix(LABEL)
    if not by.startswith(LABEL) or key in (kept := kept_labels(facts, periods)):
        return []
    return [
        f"No pod of {', '.join(periods)} has the label {key}; labels that are kept: "
        f"{', '.join(kept) or 'none'}. "
        "A label is kept from when pod_labels under [pull] in config.toml names it."
    ]


def _notes(
    facts: Facts, window: Interval, found: Sequence[UsageGroup], tenant: str, provider: bool
) -> list[str]:
    """Notes about an empty result, the end of counted usage, and amounts that are not included."""
    notes = []
    if not found:
        known = ", ".join(tenants_with_use(facts, window)) or "no tenant"
        whose = f"of {tenant} " if tenant else "of the provider " if provider else ""
        notes.append(f"No use {whose}was counted in this window; counted there: {known}.")
    for name in facts.require(window):
        counted = counted_window(facts, name)
        if counted and counted.ended_at < min(window.ended_at, BillingPeriod(name).ended_at):
            until = format_instant(counted.ended_at)
            notes.append(f"{name} is counted until {until}; later hours are not in it.")
        for who, currency, nanos in outage_credits(facts, name, tenant):
            amount = _nanos(-nanos, currency, digits=True)
            notes.append(f"Outages of {name} credit {who} {amount} {currency}, not in these rows.")
    uncertain = sum(row.uncertainty_device_seconds for row in found)
    if uncertain:
        notes.append(
            f"{uncertain} device-seconds are uncertain: a start or an end is between two samples."
        )
        notes += [
            f"`gpu-ledger check {period}` shows where the journal of {period} has gaps."
            for period in facts.require(window)
            if journal_is_uncertain(facts, period)
        ]
    return notes
