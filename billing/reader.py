"""What a period's documents are made of, read from the marts; an edge.

Put here: the SQL that turns marts into usage, and manifests into the hashes of evidence.
Not here: what documents make of it.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

from billing.usage import Charge, ChargeKey, PodUse, Usage, WorkloadDay, WorkloadLabels
from domain.billing_period import BillingPeriod
from domain.tenant import BelongsTo
from warehouse.manifests import attempt_hours, inside
from warehouse.store import Store

if TYPE_CHECKING:
    import duckdb

_SHARED_KEY = """
    tenant, belongs_to, gpu_class, mig_profile, cluster_id,
    weight_numerator, weight_denominator, weight_policy, rate_id
"""
_KEY = f"{_SHARED_KEY}, charge_started_at"
_KEY_LENGTH = 10

_CHARGES = f"""
    select {_KEY}, charge_ended_at, rate_nanos_per_hour, currency, device_seconds, cost_nanos
    from marts.fct_charges where billing_period = $period and device_seconds > 0
    order by all
"""

# A rate may hold, pause and hold again: only the instant says to which charge a pod-hour belongs.
_CHARGED_POD_HOURS = f"""
    from (
        select * from marts.fct_pod_hours
        where billing_period = $period and billable_seconds > 0
    ) as pod_hours
    inner join (
        select {_KEY}, charge_ended_at from marts.fct_charges where billing_period = $period
    ) as charges using ({_SHARED_KEY})
    where segment_started_at >= charge_started_at and segment_started_at < charge_ended_at
"""

# A pod-hour in an outage is charged as any other, and taken back once more as a credit.
_SIGNED_POD_HOURS = f"""
    from (
        select *, false as credited, 1 as sign {_CHARGED_POD_HOURS}
        union all
        select *, true as credited, -1 as sign {_CHARGED_POD_HOURS} and is_outage
    ) as signed
"""

_CREDITS = f"""
    select {_KEY}, charge_ended_at, rate_nanos_per_hour, charges.currency,
        -sum(credits.device_seconds)::bigint, sum(credit_nanos)::decimal(38, 0)
    from (
        select * from marts.fct_outage_credits where billing_period = $period
    ) as credits
    inner join (
        select * from marts.fct_charges where billing_period = $period
    ) as charges using ({_SHARED_KEY})
    where credit_started_at >= charge_started_at and credit_started_at < charge_ended_at
    group by all order by all
"""

_WORKLOAD_DAYS = f"""
    select {_KEY}, credited, (hour_started_at at time zone 'UTC')::date,
        workload_kind, workload_name,
        sum(sign * billable_seconds * device_count)::bigint,
        sum(sign * cost_nanos)::decimal(38, 0)
    {_SIGNED_POD_HOURS}
    group by all order by all
"""

_PODS = f"""
    select {_KEY}, credited, pod_uid, pod_name, node_name, resource, workload_kind, workload_name,
        method, device_count, min(segment_started_at), max(segment_ended_at),
        sum(sign * billable_seconds * device_count)::bigint,
        sum(greatest(sign, 0) * uncertainty_seconds * device_count)::bigint,
        sum(sign * cost_nanos)::decimal(38, 0)
    {_SIGNED_POD_HOURS}
    group by all order by all
"""


# A label belongs to a workload when every pod of it has it with the same value.
_WORKLOAD_LABELS = """
    with pods as (
        select distinct tenant, cluster_id, workload_kind, workload_name, pod_uid
        from marts.fct_pod_hours where billing_period = $period
    ),
    counts as (
        select tenant, cluster_id, workload_kind, workload_name, count(*) as pod_count
        from pods group by all
    )
    select tenant, cluster_id, workload_kind, workload_name, label_key, min(label_value)
    from pods
    inner join counts using (tenant, cluster_id, workload_kind, workload_name)
    inner join (
        select cluster_id, pod_uid, label_key, label_value
        from marts.dim_pod_labels where billing_period = $period
    ) as labels using (cluster_id, pod_uid)
    group by tenant, cluster_id, workload_kind, workload_name, label_key, pod_count
    having count(*) = pod_count and min(label_value) = max(label_value)
    order by all
"""


def read_usage(connection: duckdb.DuckDBPyConnection, period: BillingPeriod) -> Usage:
    """Charges, workload-days and pods of a period. Use that costs nothing is read as well."""
    return Usage(
        (
            *(_charge(row, credited=False) for row in _rows(connection, _CHARGES, period)),
            *(_charge(row, credited=True) for row in _rows(connection, _CREDITS, period)),
        ),
        tuple(_workload_day(row) for row in _rows(connection, _WORKLOAD_DAYS, period)),
        tuple(_pod(row) for row in _rows(connection, _PODS, period)),
        tuple(
            WorkloadLabels(tenant, cluster, kind, name, tuple((row[4], row[5]) for row in rows))
            for (tenant, cluster, kind, name), rows in groupby(
                _rows(connection, _WORKLOAD_LABELS, period), key=lambda row: row[:4]
            )
        ),
    )


def read_evidence(landing: Store, period: BillingPeriod) -> dict[str, dict[str, list[str]]]:
    """Cluster → source → hashes of all answers about hours of the period, sorted.

    Hashes of answers, not of attempts: an attempt's hash depends on what was asked before it.
    """
    hashes: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for hour in inside(attempt_hours(landing), period.interval):
        if hour.usable:
            hashes[hour.cluster_id][hour.source].update(hour.row["answer_sha256s"])
    return {
        cluster: {source: sorted(hashes[cluster][source]) for source in sorted(hashes[cluster])}
        for cluster in sorted(hashes)
    }


def _charge(row: tuple[Any, ...], credited: bool) -> Charge:
    ended_at, rate, currency, seconds, cost = row[_KEY_LENGTH:]
    return Charge(
        key=_key(row, credited),
        ended_at=_utc(ended_at),
        rate_nanos_per_hour=int(rate),
        currency=currency,
        device_seconds=int(seconds),
        cost_nanos=int(cost),
    )


def _workload_day(row: tuple[Any, ...]) -> WorkloadDay:
    credited, day, kind, name, seconds, cost = row[_KEY_LENGTH:]
    return WorkloadDay(_key(row, credited), day, kind, name, int(seconds), int(cost))


def _pod(row: tuple[Any, ...]) -> PodUse:
    credited, uid, name, node, resource, *rest = row[_KEY_LENGTH:]
    kind, workload, method, count, first, last, seconds, uncertain, cost = rest
    return PodUse(
        key=_key(row, credited),
        pod_uid=uid,
        pod_name=name,
        node_name=node,
        resource=resource,
        workload_kind=kind,
        workload_name=workload,
        method=method,
        device_count=int(count),
        first_started_at=_utc(first),
        last_ended_at=_utc(last),
        device_seconds=int(seconds),
        uncertain_device_seconds=int(uncertain),
        cost_nanos=int(cost),
    )


def _key(row: tuple[Any, ...], credited: bool) -> ChargeKey:
    tenant, belongs_to, gpu_class, profile, cluster, *weight, policy, rate, start = row[
        :_KEY_LENGTH
    ]
    return ChargeKey(
        tenant=tenant,
        belongs_to=BelongsTo(belongs_to),
        gpu_class=gpu_class,
        mig_profile=profile,
        cluster_id=cluster,
        weight=Fraction(*weight),
        weight_policy=policy,
        started_at=_utc(start),
        rate_id=rate,
        credited=credited,
    )


def _rows(
    connection: duckdb.DuckDBPyConnection, statement: str, period: BillingPeriod
) -> list[tuple[Any, ...]]:
    return connection.execute(statement, {"period": period.name}).fetchall()


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)
