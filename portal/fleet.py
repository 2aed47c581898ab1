"""The fleet as the provider and a programme owner see it, as typed rows.

Put here: rows read from the provider's snapshot.
Not here: one tenant's month (`portal.consumption`), or the counting itself (`dbt/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

import msgspec

from domain.billing_period import BillingPeriod
from domain.interval import HOUR
from portal.consumption import (
    CLUSTER_NAMES,
    ESTIMATED,
    FORECASTS,
    amount_text,
    counted,
    hours_text,
    pct_text,
    periods,
    structs,
)
from warehouse.reports import inventory, nodes
from warehouse.reports.inventory import SECOND
from warehouse.reports.opened_facts import Facts, Row
from warehouse.reports.quotas import last_hour_of_quotas, quotas_of_hour

WEEK_HOURS = 7 * 24


class FleetHour(msgspec.Struct, kw_only=True):
    """One hour over all clusters; physical cards."""

    hour_started_at: datetime
    cluster_count: int
    active_worker_nodes: int
    active_worker_nodes_max: int
    sum_of_node_max: int
    sum_of_node_max_bound: int
    simultaneous_max: int
    gpu_capacity: int
    how_known: str
    is_lower_bound: bool


class ClusterHour(msgspec.Struct, kw_only=True):
    """One cluster in one hour; no numbers where nothing was measured."""

    cluster_name: str
    hour_started_at: datetime
    measurement: str
    active_worker_nodes: int | None
    active_worker_nodes_max: int | None
    sum_of_node_max: int | None
    sum_of_node_max_bound: int | None
    simultaneous_max: int | None
    how_known: str | None
    is_lower_bound: bool | None
    gpu_capacity: int | None


class NodeHour(msgspec.Struct, kw_only=True):
    """One node in one hour, and the pods that ran when most of its cards were in use."""

    cluster_name: str
    node_name: str
    gpu_count_max: int
    gpu_count_max_bound: int
    gpu_capacity: int
    how_known: str
    is_lower_bound: bool
    pods: list[str]


class NodeMonthRow(msgspec.Struct, kw_only=True):
    """One cluster, hour and node of the programme owner's report."""

    cluster_name: str
    hour_started_at: datetime
    measurement: str
    node_name: str
    gpu_count_max: int | None
    gpu_count_max_bound: int | None
    how_known: str | None
    active_worker_nodes: int | None
    active_worker_nodes_max: int | None
    cluster_gpu_count_max: int | None
    cluster_gpu_count_max_bound: int | None
    cluster_how_known: str | None
    is_lower_bound: bool | None


class TenantRow(msgspec.Struct, kw_only=True):
    """One tenant's month beside its budget."""

    tenant: str
    currency: str
    device_hours: str
    cost: str
    burn_rate_per_hour: str
    forecast: str
    forecast_low: str
    forecast_high: str
    budget: str
    budget_used_pct: str
    forecast_of_budget_pct: str
    idle_cost: str


class FleetSum(msgspec.Struct, kw_only=True):
    """All tenants of one currency together: the sums of their rows."""

    billing_period: str
    currency: str
    tenants: int
    cost: str
    burn_rate_per_hour: str
    forecast: str
    idle_cost: str


class FleetDay(msgspec.Struct, kw_only=True):
    """One day over all clusters: the largest numbers of its measured hours."""

    usage_day: str
    hours: int
    active_worker_nodes_max: int
    sum_of_node_max: int
    simultaneous_max: int


class CapacityRow(msgspec.Struct, kw_only=True):
    """The uses of the cards of one class in the last complete hour, in cards."""

    cluster_name: str
    gpu_class: str
    hour_started_at: datetime
    installed: str
    running: str
    held: str
    idle: str
    unsold: str
    unhealthy: str
    withdrawn: str
    unmeasured: str


class CardHourRow(msgspec.Struct, kw_only=True):
    """The cards of one class in one hour over all clusters, in cards."""

    hour_started_at: datetime
    gpu_class: str
    installed: str
    running: str
    held: str


class NodeCardsRow(msgspec.Struct, kw_only=True):
    """The uses of the cards of one node and class in an hour, in cards."""

    cluster_name: str
    node_name: str
    gpu_class: str
    hour_started_at: datetime
    installed: str
    running: str
    held: str
    idle: str
    unsold: str
    unhealthy: str
    withdrawn: str
    unmeasured: str


class DeviceRow(msgspec.Struct, kw_only=True):
    """One card or MIG instance at an instant, and its holder; a number where it has no name."""

    cluster_name: str
    node_name: str
    gpu_index: str
    instance_id: str
    device_uuid: str
    device_name: str
    gpu_class: str
    mig_profile: str
    device_count: int
    seen_since: datetime
    held_by: str
    holder_known_by: str
    how_known: str


class NodeCapacityRow(msgspec.Struct, kw_only=True):
    """The devices of one node, class and shape at an instant: how many, and the pods on them."""

    cluster_name: str
    node_name: str
    gpu_class: str
    mig_profile: str
    device_capacity: int
    device_allocatable: int
    device_allocated: int
    holders: list[str]


class DifferenceRow(msgspec.Struct, kw_only=True):
    """Use of one tenant and cluster that is not confirmed by both sources, in device-hours."""

    tenant: str
    cluster_name: str
    method: str  # which source is billed, or disputed, or missing
    reason: str
    pods: int
    lifecycle_hours: str
    samples_hours: str
    billed_hours: str
    cost: str
    currency: str


class IdleRow(msgspec.Struct, kw_only=True):
    """One pod whose devices were not used, and the cost of that time."""

    tenant: str
    cluster_name: str
    node_name: str
    pod_name: str
    idle_hours: str
    idle_cost: str
    currency: str


class FindingRow(msgspec.Struct, kw_only=True):
    """One finding of the last check of the month."""

    code: str
    name: str
    blocks: bool
    where: str
    cluster_id: str  # for commands and auditors; empty where it is of no single cluster
    seen: str
    what_to_do: str


class CorrectionRow(msgspec.Struct, kw_only=True):
    """A recorded difference that stands on no invoice yet."""

    corrects_period: str
    tenant: str
    currency: str
    cost: str
    reason: str


class QuotaUseRow(msgspec.Struct, kw_only=True):
    """A tenant's quota beside its use, in the last hour in which one was observed."""

    tenant: str
    cluster_name: str
    resource: str
    hour_started_at: datetime
    hard_count: int
    used_count: int
    allocated_count_max: int


class CloseStep(msgspec.Struct, kw_only=True):
    """One step to close a month: whether it is done or blocked, and the command for it."""

    number: int
    title: str
    status: str  # done, blocked, waiting or open
    detail: str
    command: str


_FLEET_HOUR = "select * from fct_fleet_hours where hour_started_at = $at"
_FLEET_HOURS = """
    select * from fct_fleet_hours where billing_period = $period order by hour_started_at
"""
_FLEET_DAYS = """
    select
        strftime(hour_started_at at time zone 'UTC', '%Y-%m-%d') as usage_day,
        count(*) as hours,
        max(active_worker_nodes_max) as active_worker_nodes_max,
        max(sum_of_node_max) as sum_of_node_max,
        max(simultaneous_max) as simultaneous_max
    from fct_fleet_hours
    where billing_period = $period
    group by usage_day
    order by usage_day
"""
_TENANTS = """
    with costs as (
        select tenant, currency, sum(device_seconds) as device_seconds,
            sum(cost_nanos) as cost_nanos
        from fct_charges
        where billing_period = $period and belongs_to = 'tenant'
        group by all
    ),

    credits as (
        select tenant, currency, sum(credit_nanos) as credit_nanos
        from fct_outage_credits
        where billing_period = $period and belongs_to = 'tenant'
        group by all
    ),

    idle as (
        select tenant, sum(idle_nanos) as idle_nanos
        from fct_gpu_use
        where billing_period = $period
        group by tenant
    ),

    paces as (
        select tenant, currency, sum(last_hour_cost_nanos) as last_hour_cost_nanos
        from pod_costs
        where billing_period = $period
        group by all
    )

    select
        costs.tenant,
        costs.currency,
        costs.device_seconds,
        costs.cost_nanos + coalesce(credits.credit_nanos, 0) as cost_nanos,
        coalesce(paces.last_hour_cost_nanos, 0) as last_hour_cost_nanos,
        coalesce(forecasts.forecast_nanos, 0) as forecast_nanos,
        coalesce(forecasts.forecast_low_nanos, 0) as forecast_low_nanos,
        coalesce(forecasts.forecast_high_nanos, 0) as forecast_high_nanos,
        coalesce(forecasts.has_budget, false) as has_budget,
        coalesce(forecasts.budget_nanos, 0) as budget_nanos,
        coalesce(forecasts.budget_used_millionths, 0) as budget_used_millionths,
        coalesce(idle.idle_nanos, 0) as idle_nanos
    from costs
    left join credits on costs.tenant = credits.tenant and costs.currency = credits.currency
    left join fct_forecasts as forecasts
        on forecasts.billing_period = $period
        and forecasts.subject = 'tenant'
        and costs.tenant = forecasts.tenant
        and costs.currency = forecasts.currency
    left join idle on costs.tenant = idle.tenant
    left join paces on costs.tenant = paces.tenant and costs.currency = paces.currency
    order by costs.cost_nanos desc, costs.tenant
"""
CARD_TERMS = (
    "installed",
    "running",
    "held",
    "idle",
    "unsold",
    "unhealthy",
    "withdrawn",
    "unmeasured",
)
"""The uses of a card in an hour; the terms after the first add up to it and the unmeasured time."""
_CAPACITY = f"""
    with names as ({CLUSTER_NAMES})

    select
        names.cluster_name,
        hours.gpu_class,
        hours.share_denominator,
        {", ".join(f"sum(hours.{term}_share_seconds) as {term}" for term in CARD_TERMS)}
    from fct_node_share_hours as hours
    inner join names on hours.cluster_id = names.cluster_id
    where hours.hour_started_at = $at and hours.dimension = 'compute'
    group by all
    having sum(hours.installed_share_seconds) + sum(hours.running_share_seconds) > 0
    order by all
"""
_CARD_HOURS = """
    select
        hour_started_at,
        gpu_class,
        share_denominator,
        sum(installed_share_seconds) as installed,
        sum(running_share_seconds) as running,
        sum(held_share_seconds) as held
    from fct_node_share_hours
    where hour_started_at >= $from and hour_started_at <= $at and dimension = 'compute'
    group by all
    having sum(installed_share_seconds) + sum(running_share_seconds) > 0
    order by all
"""
_NODE_CARDS = f"""
    with names as ({CLUSTER_NAMES})

    select
        names.cluster_name,
        hours.node_name,
        hours.gpu_class,
        hours.hour_started_at,
        hours.share_denominator,
        {", ".join(f"hours.{term}_share_seconds as {term}" for term in CARD_TERMS)}
    from fct_node_share_hours as hours
    inner join names on hours.cluster_id = names.cluster_id
    where hours.hour_started_at = $at and hours.dimension = 'compute'
    order by names.cluster_name, hours.node_name, hours.gpu_class
"""
# Time that a pod was held before its start is in the journal only, by definition.
_DIFFERENCES = f"""
    with names as ({CLUSTER_NAMES})

    select
        hours.tenant,
        names.cluster_name,
        hours.method,
        hours.method_reason as reason,
        count(distinct hours.pod_uid) as pods,
        sum(hours.lifecycle_seconds * hours.device_count) as lifecycle_seconds,
        sum(hours.sampled_seconds * hours.device_count) as sampled_seconds,
        sum(hours.billable_seconds * hours.device_count) as billable_seconds,
        sum(hours.cost_nanos) as cost_nanos,
        hours.currency
    from fct_pod_hours as hours
    inner join names on hours.cluster_id = names.cluster_id
    where hours.billing_period = $period
        and hours.method <> 'confirmed' and hours.method_reason <> 'held'
    group by hours.tenant, names.cluster_name, hours.method, hours.method_reason, hours.currency
    order by
        list_position(['disputed', 'missing', 'samples_only', 'lifecycle_only'], hours.method),
        billable_seconds desc,
        hours.tenant, names.cluster_name, hours.method_reason
"""
_IDLE = f"""
    with names as ({CLUSTER_NAMES}),

    currencies as (
        select tenant, max(currency) as currency
        from fct_charges
        where billing_period = $period
        group by tenant
    )

    select
        uses.tenant,
        names.cluster_name,
        uses.node_name,
        uses.pod_name,
        sum(uses.idle_seconds) as idle_seconds,
        sum(uses.idle_nanos) as idle_nanos,
        coalesce(max(currencies.currency), '') as currency
    from fct_gpu_use as uses
    inner join names on uses.cluster_id = names.cluster_id
    left join currencies on uses.tenant = currencies.tenant
    where uses.billing_period = $period and uses.tenant <> ''
    group by uses.tenant, names.cluster_name, uses.node_name, uses.pod_name, uses.pod_uid
    having sum(uses.idle_seconds) > 0
    order by idle_nanos desc, idle_seconds desc, tenant, pod_name, node_name
"""
# The place of a finding begins with its cluster's UID; readers know the name.
_FINDINGS = f"""
    with names as ({CLUSTER_NAMES})

    select
        findings.code,
        findings.name,
        findings.blocks,
        coalesce(
            'cluster ' || names.cluster_name
            || substr(findings.found_where, length('cluster ' || findings.cluster_id) + 1),
            findings.found_where
        ) as "where",
        findings.cluster_id,
        findings.seen,
        findings.what_to_do
    from findings
    left join names
        on findings.cluster_id = names.cluster_id
        and starts_with(findings.found_where, 'cluster ' || findings.cluster_id)
    where findings.billing_period = $period
    order by findings.blocks desc, findings.code, "where", findings.seen
"""
_CHECKED = "select amounts, finding_count, blocking_count from periods where billing_period = $p"
_HOURS = """
    select
        coalesce(sum(hour_count), 0) as expected,
        coalesce(sum(hour_count) filter (state not in ('missing', 'degraded')), 0) as complete,
        coalesce(sum(hour_count) filter (state = 'missing'), 0) as missing,
        coalesce(sum(hour_count) filter (state = 'degraded'), 0) as degraded
    from coverage
    where billing_period = $period
"""


def fleet_hour(facts: Facts, at: datetime) -> list[FleetHour]:
    """One row; none for an hour that was not expected of any cluster."""
    return structs(FleetHour, facts.rows(_FLEET_HOUR, {"at": at}))


def fleet_hours(facts: Facts, period: BillingPeriod) -> list[FleetHour]:
    """Every measured hour of the month."""
    return structs(FleetHour, facts.rows(_FLEET_HOURS, {"period": period.name}))


def fleet_days(facts: Facts, period: BillingPeriod) -> list[FleetDay]:
    return structs(FleetDay, facts.rows(_FLEET_DAYS, {"period": period.name}))


def sums(facts: Facts, period: BillingPeriod) -> list[FleetSum]:
    """One row per currency; a cost without a price is in none."""
    found = tenants(facts, period)
    return [
        FleetSum(
            billing_period=period.name,
            currency=currency,
            tenants=len(rows),
            **{
                name: str(sum((Decimal(getattr(row, name)) for row in rows), Decimal(0)))
                for name in ("cost", "burn_rate_per_hour", "forecast", "idle_cost")
            },
        )
        for currency in sorted({row.currency for row in found if row.currency})
        if (rows := [row for row in found if row.currency == currency])
    ]


def cluster_hours(facts: Facts, at: datetime) -> list[ClusterHour]:
    return structs(ClusterHour, nodes.cluster_hour(facts, at))


def node_hours(facts: Facts, at: datetime) -> list[NodeHour]:
    return structs(NodeHour, nodes.node_hour(facts, at))


def node_month(facts: Facts, period: BillingPeriod) -> list[NodeMonthRow]:
    return structs(NodeMonthRow, nodes.node_month(facts, period))


def last_complete_hour(facts: Facts, period: BillingPeriod) -> datetime:
    """The start of the last complete hour of the month: "now" of the pages of the fleet."""
    [about] = [one for one in periods(facts) if one.billing_period == period.name]
    return max(about.last_complete_hour_started_at, period.started_at)


def tenants(facts: Facts, period: BillingPeriod) -> list[TenantRow]:
    """Every tenant with use, the highest cost first."""
    rows = []
    [state] = facts.rows(_CHECKED, {"p": period.name})
    for row in facts.rows(_TENANTS, {"period": period.name}):
        if state["amounts"] != ESTIMATED:  # nothing is added to a closed month
            row |= dict.fromkeys(FORECASTS, row["cost_nanos"])
        currency, budget = row["currency"], int(row["budget_nanos"])
        of_budget = pct_text(int(row["forecast_nanos"]) * 100, budget) if budget else ""
        rows.append(
            TenantRow(
                tenant=row["tenant"],
                currency=currency,
                device_hours=hours_text(int(row["device_seconds"])),
                cost=amount_text(int(row["cost_nanos"]), currency),
                burn_rate_per_hour=amount_text(int(row["last_hour_cost_nanos"]), currency),
                forecast=amount_text(int(row["forecast_nanos"]), currency),
                forecast_low=amount_text(int(row["forecast_low_nanos"]), currency),
                forecast_high=amount_text(int(row["forecast_high_nanos"]), currency),
                budget=amount_text(budget, currency) if row["has_budget"] else "",
                budget_used_pct=pct_text(int(row["budget_used_millionths"]), 10_000)
                if row["has_budget"]
                else "",
                forecast_of_budget_pct=of_budget if row["has_budget"] else "",
                idle_cost=amount_text(int(row["idle_nanos"]), currency),
            )
        )
    return rows


def capacity(facts: Facts, period: BillingPeriod) -> list[CapacityRow]:
    """The last complete hour of the month, by compute slots."""
    at = last_complete_hour(facts, period)
    return [
        CapacityRow(
            cluster_name=row["cluster_name"],
            gpu_class=row["gpu_class"],
            hour_started_at=at,
            **_cards(row, CARD_TERMS),
        )
        for row in facts.rows(_CAPACITY, {"at": at})
    ]


def card_hours(facts: Facts, at: datetime, hours: int) -> list[CardHourRow]:
    """The hours until the one that starts at `at`, by class."""
    rows = facts.rows(_CARD_HOURS, {"from": at - (hours - 1) * HOUR, "at": at})
    return [
        CardHourRow(
            hour_started_at=row["hour_started_at"],
            gpu_class=row["gpu_class"],
            **_cards(row, ("installed", "running", "held")),
        )
        for row in rows
    ]


def node_cards(facts: Facts, at: datetime) -> list[NodeCardsRow]:
    """Every node in the hour that starts at `at`."""
    return [
        NodeCardsRow(
            cluster_name=row["cluster_name"],
            node_name=row["node_name"],
            gpu_class=row["gpu_class"],
            hour_started_at=row["hour_started_at"],
            **_cards(row, CARD_TERMS),
        )
        for row in facts.rows(_NODE_CARDS, {"at": at})
    ]


def devices(facts: Facts, at: datetime) -> list[DeviceRow]:
    """Every card and MIG instance at an instant."""
    return structs(DeviceRow, inventory.devices(facts, at))


def node_capacity(facts: Facts, at: datetime) -> list[NodeCapacityRow]:
    return structs(NodeCapacityRow, inventory.capacity(facts, at))


def last_instant(facts: Facts, period: BillingPeriod) -> datetime:
    """The last second of the last complete hour: pods that ended with it are still there."""
    return last_complete_hour(facts, period) + HOUR - SECOND


def differences(facts: Facts, period: BillingPeriod) -> list[DifferenceRow]:
    """Use that only one of the two sources shows; rows that block a close come first."""
    about = ("tenant", "cluster_name", "method", "reason", "pods", "currency")
    return [
        DifferenceRow(
            **{name: row[name] for name in about},
            lifecycle_hours=hours_text(int(row["lifecycle_seconds"])),
            samples_hours=hours_text(int(row["sampled_seconds"])),
            billed_hours=hours_text(int(row["billable_seconds"])),
            cost=amount_text(int(row["cost_nanos"]), row["currency"]),
        )
        for row in facts.rows(_DIFFERENCES, {"period": period.name})
    ]


def _cards(row: Row, terms: Sequence[str]) -> dict[str, str]:
    """Share-seconds of an hour as cards."""
    denominator = int(row["share_denominator"])
    return {term: hours_text(Fraction(int(row[term]), denominator)) for term in terms}


def idle_pods(facts: Facts, period: BillingPeriod) -> list[IdleRow]:
    """The highest cost first."""
    return [
        IdleRow(
            tenant=row["tenant"],
            cluster_name=row["cluster_name"],
            node_name=row["node_name"],
            pod_name=row["pod_name"],
            idle_hours=hours_text(int(row["idle_seconds"])),
            idle_cost=amount_text(int(row["idle_nanos"]), row["currency"]),
            currency=row["currency"],
        )
        for row in facts.rows(_IDLE, {"period": period.name})
    ]


def findings(facts: Facts, period: BillingPeriod) -> list[FindingRow]:
    return structs(FindingRow, facts.rows(_FINDINGS, {"period": period.name}))


def corrections(facts: Facts) -> list[CorrectionRow]:
    return [
        CorrectionRow(
            corrects_period=row["corrects_period"],
            tenant=row["tenant"],
            currency=row["currency"],
            cost=amount_text(int(row["cost_nanos"]), row["currency"]),
            reason=row["reason"],
        )
        for row in facts.rows("select * from corrections order by all")
    ]


def quotas(facts: Facts) -> list[QuotaUseRow]:
    newest = last_hour_of_quotas(facts)
    return structs(QuotaUseRow, quotas_of_hour(facts, newest) if newest else [])


def steps(facts: Facts, period: BillingPeriod) -> list[CloseStep]:
    """The steps to close the month, in their order."""
    [state] = facts.rows(_CHECKED, {"p": period.name})
    [hours] = facts.rows(_HOURS, {"period": period.name})
    documents = facts.rows(
        "select count(*) as n from documents where billing_period = $p", {"p": period.name}
    )[0]["n"]
    blocking = state["blocking_count"]
    gaps = [row for row in findings(facts, period) if row.blocks and row.code.startswith("GAP-")]
    is_closed = state["amounts"] != ESTIMATED
    due = f"{hours['complete']} of {hours['expected']} cluster-hours of both sources are complete"
    lacking = f"{hours['missing']} missing, {hours['degraded']} degraded"
    return [
        CloseStep(
            number=1,
            title="Collect",
            status="done" if is_closed or not hours["missing"] else "open",
            detail=f"{due}; {lacking}",
            command=f"gpu-ledger pull --period {period}",
        ),
        CloseStep(
            number=2,
            title="Resolve gaps",
            status="done" if is_closed or not gaps else "blocked",
            detail=f"blocked by {counted(len(gaps), 'gap')}" if gaps else "no gap blocks the close",
            command=f"gpu-ledger gaps {period}",
        ),
        CloseStep(
            number=3,
            title="Check",
            status="done"
            if is_closed or blocking == 0
            else "waiting"
            if blocking is None
            else "blocked",
            detail="not checked since it was last counted"
            if blocking is None
            else f"{counted(state['finding_count'], 'finding')}, {blocking} blocking the close",
            command=f"gpu-ledger check {period}",
        ),
        CloseStep(
            number=4,
            title="Close",
            status="done" if is_closed else "waiting" if blocking != 0 else "open",
            detail="closed: amounts are final" if is_closed else "open: amounts are estimated",
            command=f"gpu-ledger close {period} --issue",
        ),
        CloseStep(
            number=5,
            title="Documents",
            status="done" if documents else "waiting",
            detail=counted(documents, "document"),
            command=f"gpu-ledger invoice {period}",
        ),
    ]
