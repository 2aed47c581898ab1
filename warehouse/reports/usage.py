"""Usage: device-seconds, weighted seconds and exact cost of a window, by any grouping.

Put here: the groupings, and usage by them.
Not here: the cost of an allocation (`dbt/`), or printing hours and amounts.

A window begins and ends at any second. The cost of an hour that it cuts is divided by seconds, and
windows that follow each other add up to the hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from math import lcm

from domain.errors import UnknownName
from domain.interval import HOUR, Interval
from domain.money import round_lines_to_minor_units
from warehouse.reports.opened_facts import Facts, Row
from warehouse.sql_files import statement

LABEL = "label:"

GROUPINGS: dict[str, tuple[str, ...]] = {
    "tenant": (),
    "cluster": ("cluster_name",),
    "pod": ("cluster_name", "workload_name", "pod_name", "pod_uid"),
    "workload": ("workload_kind", "workload_name"),
    "class": ("gpu_class",),
    "profile": ("gpu_class", "mig_profile"),
    "day": ("usage_day",),
    "hour": ("hour_started_at",),
}
"""The columns that identify a row, besides its tenant and its currency."""


class UnknownGrouping(UnknownName):
    """Usage was requested by an unknown grouping."""

    def __init__(self, by: str, known: Sequence[str] = (*GROUPINGS, f"{LABEL}KEY")) -> None:
        super().__init__(
            where="--by",
            seen=f"{by!r} is not a grouping",
            why="every second must fall into exactly one row",
            remedy=f"use --by with one of: {', '.join(known)}",
        )
        self.known = known


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """One row: its group, and its sums."""

    tenant: str
    about: tuple[tuple[str, str | datetime | None], ...]
    pod_count: int
    device_seconds: int
    weighted_device_seconds: Fraction
    uncertainty_device_seconds: int
    currency: str
    cost_nanos: int


def columns_of(by: str) -> tuple[str, ...]:
    """The columns of one grouping, of several (`day,class`), or of a label.

    Raises UnknownGrouping.
    """
    if by.startswith(LABEL) and len(by) > len(LABEL):
        return ("label_value",)
    if not set(by.split(",")) <= GROUPINGS.keys():
        raise UnknownGrouping(by)
    return tuple(dict.fromkeys(name for part in by.split(",") for name in GROUPINGS[part]))


def usage(
    facts: Facts,
    window: Interval,
    by: str = "tenant",
    *,
    tenant: str = "",
    of_provider: bool = False,
    table: str = "fct_pod_hours",
) -> list[UsageGroup]:
    """The rows of a window, in order; of all tenants, or of one, or of the provider's own use.

    `table` has rows of `fct_pod_hours`, or sums of such rows within a day for a window of days.
    """
    names = columns_of(by)
    facts.require(window)
    denominator = _common_denominator(facts)
    parameters = {
        "columns": list(names),
        "denominator": denominator,
        "label_key": by.removeprefix(LABEL) if by.startswith(LABEL) else "",
        "started": window.started_at,
        "ended": window.ended_at,
        "tenant": tenant,
        "belongs_to": "provider" if of_provider else "tenant",
    }
    spelled = statement(__file__, "usage").replace("from fct_pod_hours", f"from {table}")
    found = facts.rows(spelled, parameters)
    found.sort(key=lambda row: _order(row, names))
    return [
        UsageGroup(
            tenant=row["tenant"],
            about=tuple((name, row[name]) for name in names),
            pod_count=row["pod_count"],
            device_seconds=int(row["device_seconds"]),
            weighted_device_seconds=Fraction(int(row["weighted"]), denominator),
            uncertainty_device_seconds=int(row["uncertainty_device_seconds"]),
            currency=row["currency"],
            cost_nanos=int(row["cost_nanos"]),
        )
        for row in found
    ]


def burn_rates(facts: Facts, period: str, by: str, tenant: str = "") -> list[Row]:
    """Cost of the last complete hour and of the 24 until its end, per `workload` or `pod`.

    The one with the highest cost first; raises UnknownGrouping.
    """
    if by not in ("workload", "pod"):
        raise UnknownGrouping(by, ("workload", "pod"))
    columns = list(dict.fromkeys(("workload_kind", *GROUPINGS[by])))
    parameters = {"columns": columns, "period": period, "tenant": tenant}
    names = ("tenant", *columns, "currency", "last_hour_cost_nanos", "last_day_cost_nanos")
    checks = facts.rows(
        "select 1 from duckdb_tables() where database_name = current_database() "
        "and schema_name = 'quality' and table_name = 'coverage_statuses'"
    )
    costs = costs_of_last_hours("quality.coverage_statuses" if checks else "")
    tables = ", ".join(f"{name} as ({rows})" for name, rows in costs.items())
    found = facts.rows(f"with {tables} {statement(__file__, 'burn_rates')}", parameters)
    return [{name: row[name] for name in names} for row in found]


def costs_of_last_hours(coverage_statuses: str) -> dict[str, str]:
    """The names of tables and their statements, each of which reads the marts and those before.

    `coverage_statuses` is the table of the checked hours, if there is one.
    """
    waived = (
        f"from {coverage_statuses} where state = 'waived'"
        if coverage_statuses
        else "from fct_coverage where false"
    )
    names = ("last_complete_hours", "pod_costs")
    return {
        "waived_hours": f"select billing_period, cluster_id, source, hour_started_at {waived}",
        **{name: statement(__file__, name) for name in names},
    }


def rounded_costs(found: Sequence[UsageGroup]) -> list[int]:
    """Each row's cost in minor units: the tenant's sum rounded once, apportioned to its rows."""
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, row in enumerate(found):
        groups[row.tenant, row.currency].append(place)
    rounded = [0] * len(found)
    for (_, currency), places in groups.items():
        if not currency:
            continue
        lines = {f"{place:09}": found[place].cost_nanos for place in places}
        for key, nanos in round_lines_to_minor_units(lines, currency).lines.items():
            rounded[int(key)] = nanos
    return rounded


def kept_labels(facts: Facts, periods: Sequence[str]) -> list[str]:
    """The keys of all labels that pods of these periods have."""
    rows = facts.rows(statement(__file__, "label_keys"), {"periods": list(periods)})
    return [row["label_key"] for row in rows]


def _order(row: Row, names: Sequence[str]) -> tuple[object, ...]:
    """The sort key of a row, by the order of the groupings; a pod without the label comes last."""
    about = ((row[name] is None, row[name]) for name in names)
    return (row["tenant"], *about, row["currency"])


def _common_denominator(facts: Facts) -> int:
    rows = facts.rows(statement(__file__, "weight_denominators"))
    return lcm(1, *(row["weight_denominator"] for row in rows))


def outage_credits(facts: Facts, period: str, tenant: str = "") -> list[tuple[str, str, int]]:
    """Tenant, currency and (negative) nanos: lines of their own on the invoices of a period."""
    rows = facts.rows(statement(__file__, "outage_credits"), {"period": period, "tenant": tenant})
    return [(row["tenant"], row["currency"], int(row["credit_nanos"])) for row in rows]


def tenants_with_use(facts: Facts, window: Interval) -> list[str]:
    """The tenants with a row in a window, to be named when a result is empty."""
    rows = facts.rows(
        statement(__file__, "tenants_with_use"),
        {"started": window.started_at, "ended": window.ended_at},
    )
    return [row["tenant"] for row in rows]


def journal_is_uncertain(facts: Facts, period: str) -> bool:
    """Whether a start or an end is uncertain although a journal was expected."""
    [row] = facts.rows(statement(__file__, "journal_is_uncertain"), {"period": period})
    return bool(row["pod_hour_count"])


def counted_window(facts: Facts, period: str) -> Interval | None:
    """From the first to the last hour of a period that was queried."""
    [row] = facts.rows(statement(__file__, "counted_window"), {"period": period})
    first, last = row["first_hour_started_at"], row["last_hour_started_at"]
    return Interval(first, last + HOUR) if first else None
