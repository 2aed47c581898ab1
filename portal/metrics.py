"""`/metrics` for the provider's Prometheus, from the provider's snapshot.

Put here: every metric, its labels and its value.
Not here: rules and dashboards on them (`tests.alert_rules`, `tests.dashboards`), or the
process (`orchestration.cli.portal`).

The label `tenant_namespace` becomes `namespace` in the recording rules: Prometheus replaces a
`namespace` of the target itself by the namespace in which the portal runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from domain.billing_period import BillingPeriod
from domain.budgets import StepKind
from domain.clock import Clock
from domain.errors import LedgerError
from domain.interval import HOUR
from portal import fleet
from portal.alerting.alerts import severity_of
from portal.consumption import CLUSTER_NAMES, ESTIMATED, Period, periods
from warehouse.reports.opened_facts import Facts
from warehouse.snapshot_reader import PROVIDER, Snapshots
from warehouse.snapshots import INDEX

PREFIX = "gpu_ledger"
BUDGET = ("tenant_namespace", "budget", "source", "period")
METRICS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "budget_used_ratio": ("Cost so far as a share of the budget.", BUDGET),
    "budget_forecast_ratio": (
        "Forecast of the month as a share of the budget; absent in the first days of a month.",
        BUDGET,
    ),
    "budget_step_reached": (
        "1 if the step of the budget is reached, else 0.",
        (*BUDGET, "kind", "step", "severity"),
    ),
    "budget_amount": ("Amount of the budget, in units of the currency.", (*BUDGET, "currency")),
    "budget_cost": (
        "Cost so far that counts towards the budget, before outage credits.",
        (*BUDGET, "currency"),
    ),
    "budget_rate_per_hour": (
        "Mean cost of an hour of the last whole days, at most seven.",
        (*BUDGET, "currency"),
    ),
    "budget_spent_timestamp_seconds": (
        "When the amount is spent at this rate; absent where that is after the month.",
        BUDGET,
    ),
    "tenant_cost": (
        "Cost of the month so far, with outage credits, in units of the currency.",
        ("tenant_namespace", "period", "currency"),
    ),
    "tenant_forecast_cost": (
        "Expected cost of the whole month.",
        ("tenant_namespace", "period", "currency"),
    ),
    "tenant_burn_rate_per_hour": (
        "Cost of the last complete hour of the clusters of the tenant.",
        ("tenant_namespace", "period", "currency"),
    ),
    "tenant_idle_cost": (
        "Cost of the hours of the month in which a device was not used.",
        ("tenant_namespace", "period", "currency"),
    ),
    "unsold_cost": (
        "Price of the cards that no allocation held in the month so far, by the list price.",
        ("cluster", "gpu_class", "period", "currency"),
    ),
    "coverage_ratio": (
        "Complete hours of the month as a share of the expected ones that are over.",
        ("cluster", "source", "period"),
    ),
    "due_hours": (
        "Hours of the month that are over and not complete.",
        ("cluster", "source", "period"),
    ),
    "oldest_due_hour_timestamp_seconds": (
        "The start of the oldest incomplete hour of the open months; absent without one.",
        ("cluster", "source", "period"),
    ),
    "newest_complete_hour_timestamp_seconds": (
        "The end of the newest complete hour.",
        ("cluster", "source"),
    ),
    "backfill_until_timestamp_seconds": (
        "When the store deletes the samples of the oldest incomplete hour; absent without one.",
        ("cluster", "source", "period"),
    ),
    "complete_until_timestamp_seconds": (
        "The end of the last hour before the first incomplete one.",
        ("period",),
    ),
    "tenant_complete_until_timestamp_seconds": (
        "The same of the clusters in which the tenant is.",
        ("tenant_namespace", "period"),
    ),
    "counted_until_timestamp_seconds": ("The end of the last counted hour.", ("period",)),
    "month_open_since_timestamp_seconds": (
        "The end of a month that is over and not closed.",
        ("period",),
    ),
    "last_closed_month_timestamp_seconds": ("The end of the last closed month.", ()),
    "month_checked": ("1 if the counted facts of the month were checked, else 0.", ("period",)),
    "findings": ("Findings of the last check of an open month.", ("period", "code", "blocks")),
    "device_anomalies": (
        "Hours of devices in the last 24 counted hours whose reading was not as expected.",
        ("cluster", "rule"),
    ),
    "active_worker_nodes": (
        "Active worker nodes at the start of the last complete hour.",
        ("cluster",),
    ),
    "gpus_active": ("Most cards in use at one instant of the last complete hour.", ("cluster",)),
    "gpus_installed": ("Cards of the cluster in the last complete hour.", ("cluster",)),
    "snapshot_timestamp_seconds": ("When the snapshots of the portal were written.", ()),
    "snapshot_readable": ("1 if the snapshots can be read; the other metrics need them.", ()),
}

_TENANTS_COMPLETE = """
    select tenant, data_complete_to from tenant_periods
    where billing_period = $period order by tenant
"""
_BUDGETS = "select * from budget_steps where billing_period = $period order by all"
_COVERAGE = f"""
    with names as ({CLUSTER_NAMES})

    select
        coverage.cluster_id,
        coalesce(names.cluster_name, coverage.cluster_id) as cluster,
        coverage.source,
        sum(hour_count) as expected,
        coalesce(sum(hour_count) filter (state in ('missing', 'degraded')), 0) as incomplete,
        max(ended_at) as known_until,
        max(ended_at) filter (state = 'complete') as newest_complete,
        min(started_at) filter (state in ('missing', 'degraded')) as first_incomplete
    from coverage
    left join names on coverage.cluster_id = names.cluster_id
    where billing_period = $period
    group by all
    order by all
"""
_CLUSTER_HOURS = f"""
    with names as ({CLUSTER_NAMES})

    select names.cluster_name as cluster, active_worker_nodes, simultaneous_max, gpu_capacity
    from fct_cluster_hours as hours
    inner join names on hours.cluster_id = names.cluster_id
    where hours.hour_started_at = $at
    order by all
"""
# The price of a whole card; that of the cluster before that of every cluster.
_UNSOLD = f"""
    with names as ({CLUSTER_NAMES}),

    free as (
        select
            cluster_id, gpu_class, hour_started_at, share_denominator,
            sum(idle_share_seconds + unsold_share_seconds) as share_seconds
        from fct_node_share_hours
        where billing_period = $period and dimension = 'compute'
        group by all
    ),

    priced as (
        select
            free.*,
            rates.currency,
            free.share_seconds * rates.rate_nanos_per_hour as nanos,
            row_number() over (
                partition by free.cluster_id, free.gpu_class, free.hour_started_at
                order by rates.cluster_id desc
            ) as place
        from free
        inner join dim_rates as rates
            on free.gpu_class = rates.gpu_class
            and rates.mig_profile = 'whole'
            and rates.billing_period = $period
            and rates.cluster_id in ('', free.cluster_id)
            and rates.valid_from <= free.hour_started_at
            and rates.valid_until > free.hour_started_at
    )

    select
        names.cluster_name as cluster, gpu_class, currency, share_denominator,
        sum(nanos) as nanos
    from priced
    inner join names on priced.cluster_id = names.cluster_id
    where place = 1
    group by all
    order by all
"""
_FINDINGS = """
    select code, blocks, count(*) as finding_count
    from findings
    where billing_period = $period
    group by all
    order by all
"""
_ANOMALIES = f"""
    with names as ({CLUSTER_NAMES})

    select names.cluster_name as cluster, rule_name as rule, count(*) as anomaly_count
    from fct_device_anomalies as anomalies
    inner join names on anomalies.cluster_id = names.cluster_id
    where anomalies.status = 'anomaly' and anomalies.hour_started_at >= $since
    group by all
    order by all
"""


class LedgerCollector(Collector):
    """Reads the snapshot at each scrape: a tenant that is gone has no series."""

    def __init__(
        self, snapshots: Snapshots, clock: Clock, raw_retention_days: Mapping[str, int]
    ) -> None:
        self._snapshots = snapshots
        self._clock = clock
        self._raw_retention_days = raw_retention_days  # of each cluster's sample store

    def collect(self) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
            for name, (text, labels) in METRICS.items()
        }
        readable = families["snapshot_readable"]
        try:
            with self._snapshots.opened(PROVIDER) as facts:
                for name, labels, value in self._samples(facts):
                    families[name].add_metric(list(labels), float(value))
        except LedgerError:  # the file of the snapshot; its age stays known
            families = {"snapshot_readable": readable}
            readable.add_metric([], 0)
        else:
            readable.add_metric([], 1)
            written = (self._snapshots.folder / INDEX).stat().st_mtime
            families["snapshot_timestamp_seconds"].add_metric([], written)
        yield from families.values()

    def _samples(self, facts: Facts) -> Iterator[tuple[str, tuple[str, ...], Decimal | float]]:
        now = self._clock.now()
        known = periods(facts)
        for about in known:
            period = BillingPeriod(about.billing_period)
            if about.amounts == ESTIMATED:
                yield from self._open_month(facts, period, about, now)
        closed = [BillingPeriod(one.billing_period) for one in known if one.amounts != ESTIMATED]
        if closed:
            yield "last_closed_month_timestamp_seconds", (), max(closed).ended_at.timestamp()
        newest = known[-1]
        for row in facts.rows(_COVERAGE, {"period": newest.billing_period}):
            if row["newest_complete"]:
                ended = row["newest_complete"].timestamp()
                yield (
                    "newest_complete_hour_timestamp_seconds",
                    (row["cluster"], row["source"]),
                    ended,
                )
        at = newest.last_complete_hour_started_at
        for row in facts.rows(_CLUSTER_HOURS, {"at": at}):
            cluster = (row["cluster"],)
            yield "active_worker_nodes", cluster, row["active_worker_nodes"]
            yield "gpus_active", cluster, row["simultaneous_max"]
            yield "gpus_installed", cluster, row["gpu_capacity"]
        since = newest.counted_until - timedelta(days=1)
        for row in facts.rows(_ANOMALIES, {"since": since}):
            yield "device_anomalies", (row["cluster"], row["rule"]), row["anomaly_count"]

    def _open_month(
        self, facts: Facts, period: BillingPeriod, about: Period, now: datetime
    ) -> Iterator[tuple[str, tuple[str, ...], Decimal | float]]:
        name = period.name
        yield "complete_until_timestamp_seconds", (name,), about.data_complete_to.timestamp()
        yield "counted_until_timestamp_seconds", (name,), about.counted_until.timestamp()
        if period.ended_at <= now:
            yield "month_open_since_timestamp_seconds", (name,), period.ended_at.timestamp()
        [state] = facts.rows(
            "select finding_count from periods where billing_period = $period", {"period": name}
        )
        yield "month_checked", (name,), state["finding_count"] is not None
        for row in facts.rows(_FINDINGS, {"period": name}):
            blocks = str(bool(row["blocks"])).lower()
            yield "findings", (name, row["code"], blocks), row["finding_count"]
        for row in facts.rows(_TENANTS_COMPLETE, {"period": name}):
            until = row["data_complete_to"].timestamp()
            yield "tenant_complete_until_timestamp_seconds", (row["tenant"], name), until
        yield from self._coverage(facts, period, now)
        yield from _money(facts, period)
        yield from _budgets(facts, period)

    def _coverage(
        self, facts: Facts, period: BillingPeriod, now: datetime
    ) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Hours after the last counted one are due, too, from 12 minutes after their end."""
        over = min(now - timedelta(minutes=12), period.ended_at)
        for row in facts.rows(_COVERAGE, {"period": period.name}):
            labels = (row["cluster"], row["source"])
            later = max(0, (over - row["known_until"]) // HOUR)
            expected, due = int(row["expected"]) + later, int(row["incomplete"]) + later
            yield "due_hours", (*labels, period.name), due
            if expected:
                yield "coverage_ratio", (*labels, period.name), (expected - due) / expected
            first = row["first_incomplete"] or (row["known_until"] if later else None)
            days = self._raw_retention_days.get(row["cluster_id"])
            if first:
                oldest = first.timestamp()
                yield "oldest_due_hour_timestamp_seconds", (*labels, period.name), oldest
            if first and days and row["source"] == "thanos":
                until = first + timedelta(days=days)
                yield "backfill_until_timestamp_seconds", (*labels, period.name), until.timestamp()


def _money(facts: Facts, period: BillingPeriod) -> Iterator[tuple[str, tuple[str, ...], Decimal]]:
    for row in fleet.tenants(facts, period):
        if row.currency:
            labels = (row.tenant, period.name, row.currency)
            yield "tenant_cost", labels, Decimal(row.cost)
            yield "tenant_forecast_cost", labels, Decimal(row.forecast)
            yield "tenant_burn_rate_per_hour", labels, Decimal(row.burn_rate_per_hour)
            yield "tenant_idle_cost", labels, Decimal(row.idle_cost)
    for found in facts.rows(_UNSOLD, {"period": period.name}):
        of_class = (found["cluster"], found["gpu_class"], period.name, found["currency"])
        units = Decimal(int(found["nanos"])) / (3600 * int(found["share_denominator"]))
        yield "unsold_cost", of_class, units.scaleb(-9)


def _budgets(facts: Facts, period: BillingPeriod) -> Iterator[tuple[str, tuple[str, ...], float]]:
    shown = set()
    for row in facts.rows(_BUDGETS, {"period": period.name}):
        labels = (row["tenant"], row["budget"], row["source"], period.name)
        amount, kind, step = int(row["amount_nanos"]), row["step_kind"], row["step_pct"]
        of_step = (kind, str(step), severity_of(StepKind(kind), step))
        yield "budget_step_reached", (*labels, *of_step), row["reached_at"] is not None
        if labels in shown:
            continue
        shown.add(labels)
        money = (*labels, row["currency"])
        cost = int(row["cost_nanos"])
        yield "budget_amount", money, amount / 10**9
        yield "budget_cost", money, cost / 10**9
        yield "budget_rate_per_hour", money, int(row["rate_nanos_per_hour"]) / 10**9
        if row["spent_at"]:
            yield "budget_spent_timestamp_seconds", labels, row["spent_at"].timestamp()
        if amount:
            yield "budget_used_ratio", labels, cost / amount
            if row["forecast_method"]:
                yield "budget_forecast_ratio", labels, int(row["forecast_nanos"]) / amount


def registry_of(collector: LedgerCollector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry
