"""Use and cost of one tenant, as typed rows that pages and the API share.

Put here: the rows of a tenant, read from its snapshot through the reports of the command line.
Not here: which tenant a caller may see (`portal.callers`), HTML, or the counting itself (`dbt/`).

Amounts are text with all decimals: JSON numbers are read as floating-point numbers. An amount in
cents is rounded as on an invoice: the tenant's exact sum once, then its rows to that sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval
from domain.money import (
    divide_rounding_half_even,
    format_nanos,
    minor_unit_digits,
    minor_unit_nanos,
    round_lines_to_minor_units,
)
from warehouse.reports.opened_facts import Facts, Row
from warehouse.reports.quotas import last_hour_of_quotas, quotas_of_hour
from warehouse.reports.usage import UsageGroup, outage_credits, rounded_costs
from warehouse.reports.usage import usage as read_usage

S = TypeVar("S", bound=msgspec.Struct)

ESTIMATED = "estimated"
FORECASTS = ("forecast_nanos", "forecast_low_nanos", "forecast_high_nanos")
DAY_AND_CLASS = "day,class"
CLUSTER_NAMES = (
    "select cluster_id, max(cluster_name) as cluster_name from dim_clusters group by all"
)
CLOSED = "the month is closed: what was counted"


class Period(msgspec.Struct, kw_only=True):
    """A month that was counted, and how far."""

    billing_period: str
    amounts: str  # estimated or final
    counted_until: datetime
    data_complete_to: datetime
    last_complete_hour_started_at: datetime  # "now" of the month; without any, the last counted one


class Summary(msgspec.Struct, kw_only=True):
    """One tenant's month in one row."""

    tenant: str
    billing_period: str
    amounts: str  # estimated until the month is closed, then final
    counted_until: datetime  # the end of the last hour that was counted
    data_complete_to: datetime
    last_complete_hour_started_at: datetime  # "now" of this page; without any, the last counted one
    currency: str  # empty without prices; then every amount is empty, too
    cost: str  # settled + in flight + outage credits
    settled: str  # of hours that are complete
    in_flight: str  # of hours that are not complete yet, so that it can still change
    outage_credits: str
    committed_at_most: str  # the burn rate for the rest of the month
    burn_rate_per_hour: str  # cost of the last complete hour
    last_day_per_hour: str  # mean of the 24 hours until its end
    forecast: str
    forecast_low: str
    forecast_high: str
    forecast_method: str
    budget: str  # empty without a budget
    budget_used_pct: str
    gpu_hours: str  # weighted: a slice counts as the part of a card that is billed
    device_hours: str
    idle_cost: str
    utilisation_pct: str  # mean of the time that was measured; never part of an amount
    incomplete_hours: int  # of all clusters and sources
    left_out_clusters: list[str]  # the caller may not see their rows; no number contains them


class UsageRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Use by a grouping; only the columns of the grouping are there."""

    cluster_name: str | UnsetType = UNSET
    workload_kind: str | UnsetType = UNSET
    workload_name: str | UnsetType = UNSET
    pod_name: str | UnsetType = UNSET
    pod_uid: str | UnsetType = UNSET
    gpu_class: str | UnsetType = UNSET
    mig_profile: str | UnsetType = UNSET
    usage_day: str | UnsetType = UNSET
    hour_started_at: datetime | UnsetType = UNSET
    label_value: str | UnsetType | None = UNSET
    pods: int
    device_hours: str
    gpu_hours: str
    cost: str  # exact
    rounded_cost: str  # in cents; the rows add up to the rounded sum
    currency: str


class WorkloadRow(msgspec.Struct, kw_only=True):
    """One workload of the month on devices of one class and shape."""

    workload_kind: str
    workload_name: str
    gpu_class: str
    mig_profile: str
    pods: int
    device_hours: str
    gpu_hours: str
    cost: str
    rounded_cost: str
    currency: str
    burn_rate_per_hour: str
    last_day_per_hour: str
    utilisation_pct: str  # of the whole workload: telemetry knows pods, not classes
    idle_cost: str
    idle_since: datetime | None


class PodRow(msgspec.Struct, kw_only=True):
    """One pod of the month."""

    cluster_name: str
    workload_kind: str
    workload_name: str
    pod_name: str
    pod_uid: str
    node_name: str
    gpu_class: str
    mig_profile: str  # of several classes or shapes, all names
    started_at: datetime
    ended_at: datetime
    device_hours: str
    gpu_hours: str
    cost: str
    rounded_cost: str
    currency: str
    burn_rate_per_hour: str
    utilisation_pct: str
    idle_cost: str
    idle_since: datetime | None


class CoverageRow(msgspec.Struct, kw_only=True):
    """Consecutive hours of one cluster and source with one status."""

    cluster_name: str
    source: str
    status: str
    reason: str
    started_at: datetime
    ended_at: datetime
    hours: int


@dataclass(frozen=True, slots=True)
class MonthStatus:
    """How far a month was counted, and the hours that are missing or degraded."""

    about: Period
    gaps: list[CoverageRow]

    @property
    def incomplete_hours(self) -> int:
        """Of all clusters and sources."""
        return sum(row.hours for row in self.gaps)

    @property
    def has_complete_hour(self) -> bool:
        at = self.about.last_complete_hour_started_at
        return not any(row.started_at <= at < row.ended_at for row in self.gaps)


class DocumentRow(msgspec.Struct, kw_only=True):
    """An invoice, a consumption statement or a void, with its files."""

    billing_period: str
    number: str
    document: str
    status: str
    currency: str
    billed: str
    issued_at: datetime
    files: list[str]


class QuotaRow(msgspec.Struct, kw_only=True):
    """A quota beside its use, in the last hour in which one was observed."""

    cluster_name: str
    resource: str
    hour_started_at: datetime
    hard_count: int
    used_count: int
    allocated_count_max: int


class DayRow(msgspec.Struct, kw_only=True):
    """Cost of one day, and of all days of the month until its end."""

    usage_day: str
    rounded_cost: str
    cumulative_cost: str
    currency: str


_PERIODS = """
    select
        billing_period, amounts, counted_until, data_complete_to, last_complete_hour_started_at
    from periods
    order by billing_period
"""
_FORECAST = """
    select * from fct_forecasts
    where billing_period = $period and subject = 'tenant'
    order by currency
"""
_USE = """
    select
        coalesce(sum(used), 0) as used,
        coalesce(sum(measured_seconds), 0) as measured_seconds,
        coalesce(sum(idle_nanos), 0) as idle_nanos
    from pod_use
    where billing_period = $period
"""
# A pod is idle since its last hour in which one of its devices was used.
_USE_BY_POD = """
    with pods as (
        select distinct cluster_id, pod_uid, workload_kind, workload_name
        from fct_pod_periods
        where billing_period = $period
    )

    select
        {about},
        coalesce(sum(pod_use.used), 0) as used,
        coalesce(sum(pod_use.measured_seconds), 0) as measured_seconds,
        coalesce(sum(pod_use.idle_nanos), 0) as idle_nanos,
        min(pod_use.first_hour) as first_hour,
        max(pod_use.last_hour) as last_hour,
        max(pod_use.last_busy_hour) as last_busy_hour
    from pods
    inner join pod_use on pods.cluster_id = pod_use.cluster_id and pods.pod_uid = pod_use.pod_uid
    where pod_use.billing_period = $period
    group by {about}
"""
_PACE = """
    select
        coalesce(sum(last_hour_cost_nanos), 0) as last_hour_cost_nanos,
        coalesce(sum(last_day_cost_nanos), 0) as last_day_cost_nanos
    from pod_costs
    where billing_period = $period and currency = $currency
"""
_PACES = """
    select
        {about},
        sum(last_hour_cost_nanos) as last_hour_cost_nanos,
        sum(last_day_cost_nanos) as last_day_cost_nanos
    from pod_costs
    where billing_period = $period
    group by {about}
"""
_POD_TIMES = """
    select
        pod_uid,
        string_agg(distinct node_name, ' ' order by node_name) as node_name,
        string_agg(distinct gpu_class, ', ' order by gpu_class) as gpu_class,
        string_agg(distinct mig_profile, ', ' order by mig_profile) as mig_profile,
        min(first_started_at) as started_at,
        max(last_ended_at) as ended_at
    from fct_pod_periods
    where billing_period = $period
    group by pod_uid
"""
_IN_FLIGHT = """
    select coalesce(sum(cost_nanos), 0) as cost_nanos
    from fct_pod_hours as pod_hours
    where pod_hours.billing_period = $period and exists (
        select 1
        from coverage
        where coverage.cluster_id = pod_hours.cluster_id
            and coverage.state in ('missing', 'degraded')
            and coverage.started_at <= pod_hours.hour_started_at
            and coverage.ended_at > pod_hours.hour_started_at
    )
"""
_COVERAGE = f"""
    with names as ({CLUSTER_NAMES})

    select
        coalesce(names.cluster_name, coverage.cluster_id) as cluster_name,
        coverage.source,
        coverage.state as status,
        coverage.reason,
        coverage.started_at,
        coverage.ended_at,
        coverage.hour_count as hours
    from coverage
    left join names on coverage.cluster_id = names.cluster_id
    where coverage.billing_period = $period
    order by cluster_name, coverage.source, coverage.started_at
"""
_DOCUMENTS = """
    select
        documents.billing_period,
        documents.number,
        documents.document,
        documents.status,
        documents.currency,
        documents.billed,
        documents.issued_at,
        coalesce(list(files.name order by files.name) filter (files.name is not null), [])
            as files
    from documents
    left join document_files as files on documents.number = files.number
    group by all
    order by documents.billing_period desc, documents.number
"""


class Consumption:
    """One tenant's month, read from its snapshot."""

    def __init__(self, facts: Facts, tenant: str, period: BillingPeriod) -> None:
        self.facts = facts
        self.tenant = tenant
        self.period = period
        self._parameters = {"period": period.name}

    @cached_property
    def status(self) -> MonthStatus:
        return month_status(self.facts, self.period)

    @cached_property
    def _by_day_and_class(self) -> list[UsageGroup]:
        """Read once for the sums, the days and the classes of a page."""
        return self._of_month(DAY_AND_CLASS)

    def summary(self) -> Summary:
        about = self.status.about
        used = self._by_day_and_class
        forecasts = self.facts.rows(_FORECAST, self._parameters)
        credits = outage_credits(self.facts, self.period.name, self.tenant)
        currency = min((row.currency for row in used if row.currency), default="")
        forecast = next((row for row in forecasts if row["currency"] == currency), None)
        [use] = self.facts.rows(_USE, self._parameters)
        [in_flight] = self.facts.rows(_IN_FLIGHT, self._parameters)
        [paces] = self.facts.rows(_PACE, self._parameters | {"currency": currency})
        nanos = sum(row.cost_nanos for row in used)
        flying = int(in_flight["cost_nanos"]) if about.amounts == ESTIMATED else 0
        credited = sum(amount for _, of, amount in credits if of == currency)
        parts = {"1": nanos - flying, "2": flying, "3": credited}
        left_seconds = int((self.period.ended_at - about.counted_until).total_seconds())
        pace = _amount(paces, "last_hour_cost_nanos")
        if about.amounts != ESTIMATED:  # nothing is added to a closed month
            left_seconds = 0
            closed = dict.fromkeys(FORECASTS, nanos + credited)
            forecast = {**forecast, **closed, "forecast_method": CLOSED} if forecast else None
        cents = round_lines_to_minor_units(parts, currency) if currency else None
        lines = cents.lines if cents else dict.fromkeys(parts, 0)
        return Summary(
            tenant=self.tenant,
            billing_period=self.period.name,
            amounts=about.amounts,
            counted_until=about.counted_until,
            data_complete_to=about.data_complete_to,
            last_complete_hour_started_at=about.last_complete_hour_started_at,
            currency=currency,
            cost=amount_text(cents.total_nanos if cents else 0, currency),
            settled=amount_text(lines["1"], currency),
            in_flight=amount_text(lines["2"], currency),
            outage_credits=amount_text(lines["3"], currency),
            committed_at_most=amount_text(pace * left_seconds // 3600, currency),
            burn_rate_per_hour=amount_text(pace, currency),
            last_day_per_hour=_per_hour_of_day(paces, currency),
            **_forecast_texts(forecast, currency),
            gpu_hours=hours_text(sum((row.weighted_device_seconds for row in used), Fraction(0))),
            device_hours=hours_text(sum(row.device_seconds for row in used)),
            idle_cost=amount_text(int(use["idle_nanos"]), currency),
            utilisation_pct=_utilisation(use),
            incomplete_hours=self.status.incomplete_hours,
            left_out_clusters=list(self.facts.left_out),
        )

    def usage(self, by: str, window: Interval | None = None) -> list[UsageRow]:
        """Use of the month, or of a window; raises UnknownGrouping, NoFactsYet."""
        if window is None:
            found = self._by_day_and_class if by == DAY_AND_CLASS else self._of_month(by)
        else:
            found = read_usage(self.facts, window, by, tenant=self.tenant)
        return [
            UsageRow(
                **_about(row),
                pods=row.pod_count,
                device_hours=hours_text(row.device_seconds),
                gpu_hours=hours_text(row.weighted_device_seconds),
                cost=format_nanos(row.cost_nanos) if row.currency else "",
                rounded_cost=amount_text(nanos, row.currency),
                currency=row.currency,
            )
            for row, nanos in zip(found, rounded_costs(found), strict=True)
        ]

    def days(self) -> list[DayRow]:
        """The days of the month that have any use."""
        of_days: dict[tuple[str, str], UsageGroup] = {}
        for row in self._by_day_and_class:
            key = (str(dict(row.about)["usage_day"]), row.currency)
            before = of_days[key].cost_nanos if key in of_days else 0
            of_days[key] = replace(row, cost_nanos=before + row.cost_nanos)
        found = [of_days[key] for key in sorted(of_days)]
        rows, total = [], 0
        for (usage_day, _), row, nanos in zip(
            sorted(of_days), found, rounded_costs(found), strict=True
        ):
            total += nanos
            rows.append(
                DayRow(
                    usage_day=usage_day,
                    rounded_cost=amount_text(nanos, row.currency),
                    cumulative_cost=amount_text(total, row.currency),
                    currency=row.currency,
                )
            )
        return rows

    def workloads(self) -> list[WorkloadRow]:
        """The highest cost first."""
        about = ("workload_kind", "workload_name", "gpu_class", "mig_profile")
        found = self._of_month("workload,class,profile")
        paces = self._by(_PACES.format(about=", ".join(about)), about)
        uses = self._uses(about[:2])
        rows = []
        for row, nanos in zip(found, rounded_costs(found), strict=True):
            key = tuple(str(value) for _, value in row.about)
            use, pace = uses.get(key[:2]), paces.get(key)
            rows.append(
                WorkloadRow(
                    **dict(zip(about, key, strict=True)),
                    pods=row.pod_count,
                    **_quantities(row, nanos),
                    burn_rate_per_hour=amount_text(
                        _amount(pace, "last_hour_cost_nanos"), row.currency
                    ),
                    last_day_per_hour=_per_hour_of_day(pace, row.currency),
                    utilisation_pct=_utilisation(use) if use else "",
                    idle_cost=amount_text(_amount(use, "idle_nanos"), row.currency),
                    idle_since=self._idle_since(use),
                )
            )
        return sorted(rows, key=lambda row: (-Decimal(row.cost or 0), row.workload_name))

    def pods(self, kind: str = "", name: str = "") -> list[PodRow]:
        """The pods of one workload, or all; the highest cost first."""
        found = self._of_month("workload,pod")
        cents = rounded_costs(found)
        times = self._by(_POD_TIMES, ("pod_uid",))
        paces = self._by(_PACES.format(about="pod_uid"), ("pod_uid",))
        uses = self._uses(("pod_uid",), "pods.pod_uid")
        rows = []
        for row, nanos in zip(found, cents, strict=True):
            about = {key: str(value) for key, value in row.about}
            if (kind and about["workload_kind"] != kind) or (
                name and about["workload_name"] != name
            ):
                continue
            time, use = times[(about["pod_uid"],)], uses.get((about["pod_uid"],))
            rows.append(
                PodRow(
                    **about,
                    node_name=time["node_name"],
                    gpu_class=time["gpu_class"],
                    mig_profile=time["mig_profile"],
                    started_at=time["started_at"],
                    ended_at=time["ended_at"],
                    **_quantities(row, nanos),
                    burn_rate_per_hour=amount_text(
                        _amount(paces.get((about["pod_uid"],)), "last_hour_cost_nanos"),
                        row.currency,
                    ),
                    utilisation_pct=_utilisation(use) if use else "",
                    idle_cost=amount_text(_amount(use, "idle_nanos"), row.currency),
                    idle_since=self._idle_since(use),
                )
            )
        return sorted(rows, key=lambda row: (-Decimal(row.cost or 0), row.pod_uid))

    def coverage(self) -> list[CoverageRow]:
        return coverage(self.facts, self.period)

    def quotas(self) -> list[QuotaRow]:
        newest = last_hour_of_quotas(self.facts)
        found = quotas_of_hour(self.facts, newest, self.tenant) if newest else []
        return structs(QuotaRow, found)

    def _of_month(self, by: str) -> list[UsageGroup]:
        table = "fct_pod_hours" if "hour" in by.split(",") else "pod_days"
        interval = self.period.interval
        return read_usage(self.facts, interval, by, tenant=self.tenant, table=table)

    def _uses(self, about: Sequence[str], spelled: str = "") -> dict[tuple[str, ...], Row]:
        names = spelled or ", ".join(f"pods.{name}" for name in about)
        return self._by(_USE_BY_POD.format(about=names), about)

    def _by(self, statement: str, about: Sequence[str]) -> dict[tuple[str, ...], Row]:
        rows = self.facts.rows(statement, self._parameters)
        return {tuple(str(row[name]) for name in about): row for row in rows}

    def _idle_since(self, use: Row | None) -> datetime | None:
        """From when on a workload or pod that is there still was idle without a break."""
        if use is None or use["last_hour"] < self.status.about.last_complete_hour_started_at:
            return None
        busy: datetime | None = use["last_busy_hour"]
        if busy is None:
            first: datetime = use["first_hour"]
            return first
        return busy + HOUR if busy < use["last_hour"] else None


def structs(kind: type[S], rows: Iterable[Row]) -> list[S]:
    """The rows as structs, without the columns that these do not have."""
    names = kind.__struct_fields__
    return [kind(**{name: row[name] for name in names}) for row in rows]


def periods(facts: Facts) -> list[Period]:
    """Every month that was counted, the oldest first."""
    return structs(Period, facts.rows(_PERIODS))


def month_status(facts: Facts, period: BillingPeriod) -> MonthStatus:
    [about] = [one for one in periods(facts) if one.billing_period == period.name]
    gaps = [row for row in coverage(facts, period) if row.status in ("missing", "degraded")]
    return MonthStatus(about, gaps)


def coverage(facts: Facts, period: BillingPeriod) -> list[CoverageRow]:
    return structs(CoverageRow, facts.rows(_COVERAGE, {"period": period.name}))


def documents(facts: Facts) -> list[DocumentRow]:
    """Every document of the tenant, the newest month first."""
    return structs(DocumentRow, facts.rows(_DOCUMENTS))


def document_file(facts: Facts, number: str, name: str) -> tuple[str, str] | None:
    """The month and the SHA-256 of a file of one of the tenant's documents."""
    rows = facts.rows(
        "select billing_period, sha256 from document_files where number = $number and name = $name",
        {"number": number, "name": name},
    )
    return (rows[0]["billing_period"], rows[0]["sha256"]) if rows else None


def focus_files(facts: Facts, period: BillingPeriod) -> list[tuple[str, str]]:
    """Name and SHA-256 of the FOCUS file of each document of the month."""
    rows = facts.rows(
        "select name, sha256 from document_files "
        "where billing_period = $period and ends_with(name, '-focus.csv') order by number",
        {"period": period.name},
    )
    return [(row["name"], row["sha256"]) for row in rows]


def hours_text(seconds: int | Fraction) -> str:
    """Hours with two decimals, rounded half-even, as on an invoice."""
    hundredths = divide_rounding_half_even(seconds.numerator * 100, seconds.denominator * 3600)
    return str(Decimal(hundredths).scaleb(-2))


def _about(row: UsageGroup) -> dict[str, Any]:
    """The columns of the grouping of a row of usage."""
    return dict(row.about)


def _quantities(row: UsageGroup, cents: int) -> dict[str, str]:
    return {
        "device_hours": hours_text(row.device_seconds),
        "gpu_hours": hours_text(row.weighted_device_seconds),
        "cost": format_nanos(row.cost_nanos) if row.currency else "",
        "rounded_cost": amount_text(cents, row.currency),
        "currency": row.currency,
    }


def amount_text(nanos: int, currency: str) -> str:
    """An amount in minor units, rounded half-even; empty without a currency."""
    if not currency:
        return ""
    unit = minor_unit_nanos(currency)
    return format_nanos(divide_rounding_half_even(nanos, unit) * unit, minor_unit_digits(currency))


def _amount(row: Row | None, name: str) -> int:
    return int(row[name]) if row else 0


def _forecast_texts(forecast: Row | None, currency: str) -> dict[str, str]:
    """The columns of a forecast and its budget; empty without one."""
    texts = dict.fromkeys(
        (*(name.removesuffix("_nanos") for name in FORECASTS), "forecast_method"), ""
    )
    budget = {"budget": "", "budget_used_pct": ""}
    if forecast:
        for name in FORECASTS:
            texts[name.removesuffix("_nanos")] = amount_text(int(forecast[name]), currency)
        texts["forecast_method"] = str(forecast["forecast_method"])
    if forecast and forecast["has_budget"]:
        budget["budget"] = amount_text(int(forecast["budget_nanos"]), currency)
        budget["budget_used_pct"] = pct_text(int(forecast["budget_used_millionths"]), 10_000)
    return texts | budget


def _per_hour_of_day(row: Row | None, currency: str) -> str:
    return amount_text(per_hour_of_day(_amount(row, "last_day_cost_nanos")), currency)


def per_hour_of_day(nanos: int) -> int:
    """The mean cost of an hour of 24 hours."""
    return divide_rounding_half_even(nanos, 24)


def _utilisation(use: Row) -> str:
    seconds = int(use["measured_seconds"])
    return pct_text(int(use["used"]), seconds * 10_000) if seconds else ""


def pct_text(numerator: int, denominator: int) -> str:
    tenths = divide_rounding_half_even(numerator * 10, denominator)
    return str(Decimal(tenths).scaleb(-1))


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
