"""Usage: device-seconds, weighted seconds and exact cost of a window, by whatever is asked.

Put here: the groupings, and the sums over `fct_pod_hours`.
Not here: what an allocation costs (`dbt/`), or how hours and amounts are printed.

A window is whole hours, because costs are apportioned to hours and never cut again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from math import lcm

from domain.errors import WrongUse
from domain.interval import HOUR, Interval, format_instant, hour_of
from domain.money import round_lines_to_minor_units
from warehouse.reports.source import Facts

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
"""What a row is about, besides its tenant and its currency."""

_COLUMNS = {
    "cluster_name": "coalesce(clusters.cluster_name, pod_hours.cluster_id)",
    "usage_day": "strftime(pod_hours.hour_started_at, '%Y-%m-%d')",
    "label_value": "labels.label_value",
}


class UnknownGrouping(WrongUse):
    """Usage was asked for by something that no row has."""

    code = "READ-002"

    def __init__(self, by: str) -> None:
        super().__init__(
            where="--by",
            seen=f"{by!r} is nothing that usage can be told by",
            why="every second must fall into exactly one row",
            remedy=f"use one of: {', '.join(GROUPINGS)}, {LABEL}KEY",
        )


class NotWholeHours(WrongUse):
    """A window that begins or ends within an hour, or holds none."""

    code = "READ-003"

    def __init__(self, window: Interval) -> None:
        span = f"{format_instant(window.started_at)} to {format_instant(window.ended_at)}"
        super().__init__(
            where="--from and --to",
            seen=f"{span} is not one or more whole hours",
            why="costs are apportioned to hours; a part of an hour has no exact cost",
            remedy="write whole hours: --from 2026-10-01T00 --to 2026-10-02T00",
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """One row: what it is about, and its sums."""

    tenant: str
    about: tuple[tuple[str, str | datetime | None], ...]
    pod_count: int
    device_seconds: int
    weighted_device_seconds: Fraction
    uncertainty_device_seconds: int
    currency: str
    cost_nanos: int


def columns_of(by: str) -> tuple[str, ...]:
    """What a row is about: of one grouping, of several (`day,class`), or of a label.

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
) -> list[Usage]:
    """The rows of a window, in order; of all tenants, or of one, or of the provider's own use."""
    names = columns_of(by)
    if not window or any(hour_of(at) != at for at in (window.started_at, window.ended_at)):
        raise NotWholeHours(window)
    facts.require(window)
    parameters = {
        "started": window.started_at,
        "ended": window.ended_at,
        "tenant": tenant,
        "belongs_to": "provider" if of_provider else "tenant",
    }
    denominator = _common_denominator(facts)
    if by.startswith(LABEL):
        parameters["label_key"] = by.removeprefix(LABEL)
    found = facts.rows(_statement(names, denominator), parameters)
    return [
        Usage(
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


def rounded_costs(found: Sequence[Usage]) -> list[int]:
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
    rows = facts.rows(
        "select distinct label_key from dim_pod_labels "
        "where list_contains($periods, billing_period) order by all",
        {"periods": list(periods)},
    )
    return [row["label_key"] for row in rows]


def _common_denominator(facts: Facts) -> int:
    rows = facts.rows("select distinct weight_denominator from fct_pod_hours")
    return lcm(1, *(row["weight_denominator"] for row in rows))


def _statement(names: Iterable[str], denominator: int) -> str:
    """One pass over the pod-hours; the columns are this module's own, never a caller's text."""
    about = "".join(f"{_COLUMNS.get(name, f'pod_hours.{name}')} as {name}, " for name in names)
    order = "".join(f"{name}, " for name in names)
    seconds = "cast(pod_hours.billable_seconds as hugeint) * pod_hours.device_count"
    weighted = (
        f"{seconds} * pod_hours.weight_numerator * ({denominator} // pod_hours.weight_denominator)"
    )
    labels = """
        left join dim_pod_labels as labels
            on pod_hours.billing_period = labels.billing_period
            and pod_hours.cluster_id = labels.cluster_id
            and pod_hours.pod_uid = labels.pod_uid
            and labels.label_key = $label_key
    """
    return f"""
        with clusters as (
            select cluster_id, max(cluster_name) as cluster_name from dim_clusters group by all
        )
        select
            pod_hours.tenant,
            {about}
            count(distinct (pod_hours.cluster_id, pod_hours.pod_uid)) as pod_count,
            sum({seconds}) as device_seconds,
            sum({weighted}) as weighted,
            sum(pod_hours.uncertainty_seconds * pod_hours.device_count)
                as uncertainty_device_seconds,
            pod_hours.currency,
            sum(pod_hours.cost_nanos) as cost_nanos
        from fct_pod_hours as pod_hours
        left join clusters on pod_hours.cluster_id = clusters.cluster_id
        {labels if "label_value" in names else ""}
        where pod_hours.hour_started_at >= $started and pod_hours.hour_started_at < $ended
            and pod_hours.belongs_to = $belongs_to
            and ($tenant = '' or pod_hours.tenant = $tenant)
        group by all
        order by pod_hours.tenant, {order}pod_hours.currency
    """


_CREDITS = """
    select tenant, currency, sum(credit_nanos) as credit_nanos
    from fct_outage_credits
    where billing_period = $period and belongs_to = 'tenant' and ($tenant = '' or tenant = $tenant)
    group by all
    having sum(credit_nanos) <> 0
    order by all
"""


def outage_credits(facts: Facts, period: str, tenant: str = "") -> list[tuple[str, str, int]]:
    """Tenant, currency and (negative) nanos: lines of their own on the invoices of a period."""
    rows = facts.rows(_CREDITS, {"period": period, "tenant": tenant})
    return [(row["tenant"], row["currency"], int(row["credit_nanos"])) for row in rows]


def tenants_with_use(facts: Facts, window: Interval) -> list[str]:
    """Whoever has a row in a window: what an empty answer can name instead."""
    rows = facts.rows(
        "select distinct tenant from fct_pod_hours where belongs_to = 'tenant' "
        "and hour_started_at >= $started and hour_started_at < $ended order by tenant",
        {"started": window.started_at, "ended": window.ended_at},
    )
    return [row["tenant"] for row in rows]


def journal_is_uncertain(facts: Facts, period: str) -> bool:
    """Whether a start or an end is uncertain of which a journal was to tell."""
    [row] = facts.rows(
        "select count(*) as pod_hours from fct_pod_hours inner join dim_clusters "
        "using (billing_period, cluster_id) "
        "where billing_period = $period and uncertainty_seconds > 0 and expects_journal",
        {"period": period},
    )
    return bool(row["pod_hours"])


def counted_window(facts: Facts, period: str) -> Interval | None:
    """From the first to the last hour of a period that was queried."""
    [row] = facts.rows(
        "select min(hour_started_at) as first, max(hour_started_at) as last "
        "from fct_coverage where billing_period = $period and outcome <> 'not_asked'",
        {"period": period},
    )
    return Interval(row["first"], row["last"] + HOUR) if row["first"] else None
