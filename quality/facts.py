"""The facts that judgement looks at, read from the marts as values.

Put here: the SQL that aggregates marts into what the pure judgement takes.
Not here: any opinion about them, or writing (`run`).

Every statement aggregates inside DuckDB: what comes out grows with tenants and hours, never with
pod-hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from domain.interval import HOUR, Interval
from quality.causes import DeviceUse, MetricHour, RefusedSamples, TwiceReported
from quality.conservation import Comparison
from quality.coverage import HourCoverage, HourUse
from quality.pricing import PricedCharge
from quality.reconciliation import Stretch, TenantUse
from quality.unknowns import Contradictions, NamespaceLife, Use

if TYPE_CHECKING:
    import duckdb

_COVERAGE = """
    select cluster_id, source, hour_started_at, expected_count, seen_count, missing_count,
        outcome, reason, healable, pod_missing_count
    from marts.fct_coverage where billing_period = $period
    order by all
"""

_HOUR_USE = """
    select cluster_id, hour_started_at,
        sum(cost_nanos)::decimal(38, 0), sum(billable_seconds * device_count)::bigint,
        list_sort(list(distinct tenant))
    from marts.fct_pod_hours
    where billing_period = $period and belongs_to = 'tenant' and billable_seconds > 0
    group by all order by all
"""

_TENANT_USE = """
    select tenant, cluster_id, weight_numerator, weight_denominator,
        sum(billable_seconds * device_count)::bigint,
        coalesce(sum(billable_seconds * device_count) filter (
            method = 'lifecycle_only' and method_reason = 'hole'
        ), 0)::bigint,
        coalesce(sum(uncertainty_seconds * device_count), 0)::bigint
    from marts.fct_pod_hours
    where billing_period = $period and belongs_to = 'tenant'
    group by all order by all
"""

_CONTESTED = """
    with contradictions as (
        select cluster_id, object_uid as pod_uid, string_agg(
            concat(contradiction, ' (', before_value, ' and ', after_value, ')'), ', '
            order by contradiction, before_value, after_value
        ) as statements
        from marts.fct_contradictions
        where billing_period = $period and source <> 'kubernetes'
        group by all
    )
    select cluster_id, namespace, pod_uid, pod_name, resource, method, method_reason,
        min(segment_started_at), max(segment_ended_at),
        sum(greatest(
            epoch(segment_ended_at - segment_started_at), uncertainty_seconds
        ) * device_count)::bigint,
        sum(cost_nanos)::decimal(38, 0),
        coalesce(any_value(statements) filter (method_reason = 'contradicted'), '')
    from marts.fct_pod_hours
    left join contradictions using (cluster_id, pod_uid)
    where billing_period = $period
        and (method in ('disputed', 'missing') or method_reason = 'too_short')
    group by all order by all
"""

_CHARGES = """
    select clusters.cluster_id, rate_id, device_seconds, weight_numerator, weight_denominator,
        rate_nanos_per_hour, cost_nanos
    from (
        select distinct cluster_id from marts.fct_coverage where billing_period = $period
        union
        select distinct cluster_id from marts.fct_charges where billing_period = $period
    ) as clusters
    left join (
        select * from marts.fct_charges where billing_period = $period
    ) as charges using (cluster_id)
    order by all
"""

_STRETCHES = """
    select cluster_id, source, gap_started_at, gap_ended_at
    from marts.fct_gaps where billing_period = $period
    order by all
"""

_METRIC_HOURS = """
    select cluster_id, hour_started_at, metric, expected_count, missing_count
    from marts.fct_metric_coverage where billing_period = $period
    order by all
"""

_REFUSED_SAMPLES = """
    select cluster_id, metric, label_missing, label_invalid, first_sampled_at, last_sampled_at,
        series_count, sample_count, example
    from marts.fct_refused_samples where billing_period = $period
    order by all
"""

_DEVICE_USE = """
    with gpu_use as (
        select * from marts.fct_gpu_use where billing_period = $period
    ),
    -- Pods that held a device of a node while no telemetry of the hour names them.
    unnamed as (
        select distinct cluster_id, node_name, hour_started_at
        from marts.fct_pod_hours as pod_hours
        where billing_period = $period and running_seconds > 0 and not exists (
            select 1 from gpu_use
            where gpu_use.cluster_id = pod_hours.cluster_id
                and gpu_use.hour_started_at = pod_hours.hour_started_at
                and (
                    gpu_use.pod_uid = pod_hours.pod_uid
                    or gpu_use.is_ambiguous
                    and gpu_use.namespace = pod_hours.namespace
                    and gpu_use.pod_name = pod_hours.pod_name
                )
        )
    ),
    -- Devices whose samples name a pod for less than nine tenths of the time that it held them.
    partly_named as (
        select cluster_id, device_uuid, instance_id, hour_started_at
        from gpu_use
        group by all
        having 36000 * sum(sample_count) filter (pod_uid <> '' or is_ambiguous)
            < 9 * max(allocated_seconds) filter (pod_uid <> '' or is_ambiguous)
            * sum(sample_count)
    )
    select gpu_use.cluster_id, gpu_use.node_name,
        unnamed.node_name is null and partly_named.device_uuid is null as is_unallocated,
        count(*), min(gpu_use.hour_started_at), max(gpu_use.hour_started_at)
    from gpu_use
    left join unnamed using (cluster_id, node_name, hour_started_at)
    left join partly_named using (cluster_id, device_uuid, instance_id, hour_started_at)
    where gpu_use.is_used_unallocated
    group by all order by all
"""

# One hour with both names is an upgrade of the exporter.
_TWICE_REPORTED = """
    with named_twice as (
        select distinct cluster_id, node_name, device_uuid, gpu_index, instance_id, hour_started_at
        from marts.fct_gpu_use
        where billing_period = $period and has_two_names
    )
    select cluster_id, node_name, count(distinct (device_uuid, gpu_index, instance_id)), count(*),
        min(hour_started_at), max(hour_started_at)
    from named_twice
    where exists (
        select 1 from named_twice as beside
        where beside.cluster_id = named_twice.cluster_id
            and beside.node_name = named_twice.node_name
            and beside.device_uuid = named_twice.device_uuid
            and beside.gpu_index = named_twice.gpu_index
            and beside.instance_id = named_twice.instance_id
            and abs(epoch(beside.hour_started_at - named_twice.hour_started_at)) = 3600
    )
    group by all order by all
"""

_PODS = """
    select distinct concat(tenant, '/', pod_name)
    from marts.fct_pod_hours
    where billing_period = $period and cluster_id = $cluster_id and belongs_to = 'tenant'
        and segment_started_at < $ended_at and segment_ended_at > $started_at
    order by all
"""

_NAMESAKES = """
    select cluster_id, namespace, namespace_uid, first_seen_at, last_seen_at
    from marts.dim_namespaces
    where billing_period = $period and (cluster_id, namespace) in (
        select distinct cluster_id, namespace from marts.fct_pod_hours
        where billing_period = $period
    )
    qualify count(*) over (partition by cluster_id, namespace) > 1
    order by cluster_id, namespace, first_seen_at, namespace_uid
"""

_CONTRADICTIONS = """
    select cluster_id, concat(object_kind, ' ', contradiction), count(*),
        min_by(concat(object_uid, ': ', before_value, ', then ', after_value),
            (observed_at, object_uid, before_value, after_value)),
        min(observed_at), max(observed_at)
    from marts.fct_contradictions
    where billing_period = $period and source = 'kubernetes'
    group by all order by all
"""

_USE = """
    select cluster_id, gpu_class, mig_profile, resource, list_sort(list(distinct tenant)),
        min(hour_started_at), max(hour_started_at), sum(billable_seconds * device_count)::bigint
    from marts.fct_pod_hours
    where billing_period = $period and billable_seconds > 0 and {condition}
    group by all order by all
"""

_UNPRICED = _USE.format(condition="rate_id = '' and gpu_class <> '' and belongs_to = 'tenant'")
_UNKNOWN = _USE.format(condition="gpu_class = ''")


def read_coverage(connection: duckdb.DuckDBPyConnection, period: str) -> list[HourCoverage]:
    return [
        HourCoverage(cluster, source, _utc(hour), *counts_and_words)
        for cluster, source, hour, *counts_and_words in _rows(connection, _COVERAGE, period=period)
    ]


def read_hour_use(
    connection: duckdb.DuckDBPyConnection, period: str
) -> dict[tuple[str, datetime], HourUse]:
    return {
        (cluster, _utc(hour)): HourUse(int(nanos), seconds, tuple(tenants))
        for cluster, hour, nanos, seconds, tenants in _rows(connection, _HOUR_USE, period=period)
    }


def read_tenant_use(
    connection: duckdb.DuckDBPyConnection, period: str, doubly_witnessed: frozenset[str]
) -> list[TenantUse]:
    """Weighted seconds per tenant; the limits count only clusters where both are expected."""
    sums: dict[str, list[Fraction]] = {}
    for tenant, cluster, numerator, denominator, *seconds in _rows(
        connection, _TENANT_USE, period=period
    ):
        weighted = [Fraction(numerator, denominator) * part for part in seconds]
        if cluster not in doubly_witnessed:
            weighted[1:] = [Fraction(0), Fraction(0)]
        before = sums.get(tenant, [Fraction(0)] * 3)
        sums[tenant] = [a + b for a, b in zip(before, weighted, strict=True)]
    return [TenantUse(tenant, *parts) for tenant, parts in sorted(sums.items())]


def read_stretches(connection: duckdb.DuckDBPyConnection, period: str) -> list[Stretch]:
    """Disputed and missing stretches, and pods that lived too short for any sample."""
    return [_stretch(row) for row in _rows(connection, _CONTESTED, period=period)]


def read_unpriced_use(connection: duckdb.DuckDBPyConnection, period: str) -> list[Use]:
    return _uses(connection, _UNPRICED, period)


def read_unknown_devices(connection: duckdb.DuckDBPyConnection, period: str) -> list[Use]:
    return _uses(connection, _UNKNOWN, period)


def read_charges(
    connection: duckdb.DuckDBPyConnection, period: str
) -> dict[str, list[PricedCharge]]:
    """The charges of every cluster of the calendar; a cluster without any has an empty list."""
    charges: dict[str, list[PricedCharge]] = {}
    for cluster, rate_id, seconds, numerator, denominator, rate, cost in _rows(
        connection, _CHARGES, period=period
    ):
        found = charges.setdefault(cluster, [])
        if rate_id is not None:
            weight = Fraction(numerator, denominator)
            found.append(PricedCharge(cluster, rate_id, seconds, weight, int(rate), int(cost)))
    return charges


def has_period(connection: duckdb.DuckDBPyConnection, period: str) -> bool:
    """Whether the period has been built: its calendar is there."""
    statement = """
        select count(*) from information_schema.tables
        where table_schema = 'marts' and table_name = 'fct_coverage'
    """
    if not connection.execute(statement).fetchall()[0][0]:
        return False
    return bool(_rows(connection, _COVERAGE, period=period))


def row_counts(
    connection: duckdb.DuckDBPyConnection, period: str, tables: Iterable[str]
) -> dict[str, int]:
    """How many rows of the period some marts have."""
    counts = {}
    for table in tables:
        statement = f"select count(*) from marts.{table} where billing_period = $period"
        counts[table] = int(_rows(connection, statement, period=period)[0][0])
    return counts


def read_missing_stretches(
    connection: duckdb.DuckDBPyConnection, period: str
) -> dict[tuple[str, str], list[Interval]]:
    """Cluster and witness → what is missing, to the second."""
    found: dict[tuple[str, str], list[Interval]] = {}
    for cluster, source, first, last in _rows(connection, _STRETCHES, period=period):
        found.setdefault((cluster, source), []).append(Interval(_utc(first), _utc(last)))
    return found


def read_metric_hours(
    connection: duckdb.DuckDBPyConnection, period: str
) -> dict[tuple[str, datetime], dict[str, MetricHour]]:
    """Cluster and hour → metric → what was due and what is missing."""
    found: dict[tuple[str, datetime], dict[str, MetricHour]] = {}
    for cluster, hour, metric, expected, missing in _rows(connection, _METRIC_HOURS, period=period):
        found.setdefault((cluster, _utc(hour)), {})[metric] = MetricHour(expected, missing)
    return found


def read_refused_samples(
    connection: duckdb.DuckDBPyConnection, period: str
) -> list[RefusedSamples]:
    """Samples that were there, and that nobody can count."""
    return [
        RefusedSamples(cluster, metric, missing, invalid, _utc(first), _utc(last), *counted)
        for cluster, metric, missing, invalid, first, last, *counted in _rows(
            connection, _REFUSED_SAMPLES, period=period
        )
    ]


def read_device_use(connection: duckdb.DuckDBPyConnection, period: str) -> list[DeviceUse]:
    """Busy devices without a pod, by node."""
    return [
        DeviceUse(cluster, node, unallocated, count, _utc(first), _utc(last) + HOUR)
        for cluster, node, unallocated, count, first, last in _rows(
            connection, _DEVICE_USE, period=period
        )
    ]


def read_twice_reported(connection: duckdb.DuckDBPyConnection, period: str) -> list[TwiceReported]:
    return [
        TwiceReported(cluster, node, devices, hours, _utc(first), _utc(last) + HOUR)
        for cluster, node, devices, hours, first, last in _rows(
            connection, _TWICE_REPORTED, period=period
        )
    ]


def read_pods(
    connection: duckdb.DuckDBPyConnection, period: str, cluster_id: str, time: Interval
) -> tuple[str, ...]:
    """The tenants' pods that were there in some time, each as `tenant/name`."""
    rows = _rows(
        connection,
        _PODS,
        period=period,
        cluster_id=cluster_id,
        started_at=time.started_at,
        ended_at=time.ended_at,
    )
    return tuple(name for (name,) in rows)


def read_namesakes(connection: duckdb.DuckDBPyConnection, period: str) -> list[NamespaceLife]:
    """Namespaces with use whose name had more than one UID, in order of their lives."""
    return [
        NamespaceLife(cluster, name, uid, _utc(first), _utc(last))
        for cluster, name, uid, first, last in _rows(connection, _NAMESAKES, period=period)
    ]


def read_contradictions(connection: duckdb.DuckDBPyConnection, period: str) -> list[Contradictions]:
    return [
        Contradictions(cluster, what, int(count), example, _utc(first), _utc(last))
        for cluster, what, count, example, first, last in _rows(
            connection, _CONTRADICTIONS, period=period
        )
    ]


def read_comparisons(
    connection: duckdb.DuckDBPyConnection, statement: str, period: str
) -> list[Comparison]:
    return [
        Comparison(place, int(left), int(right))
        for place, left, right in _rows(connection, statement, period=period)
    ]


def _stretch(row: tuple[Any, ...]) -> Stretch:
    cluster, tenant, pod_uid, pod_name, resource, method, reason, first, last, *more = row
    seconds, nanos, statements = more
    return Stretch(
        cluster_id=cluster,
        tenant=tenant,
        pod_uid=pod_uid,
        pod_name=pod_name,
        resource=resource,
        method=method,
        method_reason=reason,
        # What is known of a single instant can be signed too: a decision has at least a second.
        interval=Interval(_utc(first), max(_utc(last), _utc(first) + timedelta(seconds=1))),
        device_seconds=int(seconds),
        nanos=int(nanos),
        statements=statements,
    )


def _uses(connection: duckdb.DuckDBPyConnection, statement: str, period: str) -> list[Use]:
    return [
        Use(cluster, gpu_class, profile, resource, tuple(tenants), _utc(first), _utc(last), seconds)
        for cluster, gpu_class, profile, resource, tenants, first, last, seconds in _rows(
            connection, statement, period=period
        )
    ]


def _rows(
    connection: duckdb.DuckDBPyConnection, statement: str, **parameters: object
) -> list[tuple[Any, ...]]:
    named: Mapping[str, object] = parameters
    return connection.execute(statement, dict(named)).fetchall()


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)
