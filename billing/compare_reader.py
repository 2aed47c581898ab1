"""What the rules of other tools are applied to, read from the marts; an edge.

Put here: pods with the time that samples vouch for, and what they were billed.
Not here: the rules (`compare`).
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from billing.compare import Difference, PodLife, compare
from domain.billing_period import BillingPeriod
from domain.interval import Interval, union
from warehouse.connection import connected
from warehouse.home import Home

if TYPE_CHECKING:
    import duckdb

_SEGMENTS = """
    select tenant, cluster_id, pod_uid, device_count, weight_numerator, weight_denominator,
        rate_id, billable_seconds, method, segment_started_at, segment_ended_at
    from marts.fct_pod_hours
    where billing_period = $period and belongs_to = 'tenant' and rate_id <> ''
    order by all
"""

_RATES = """
    select rate_id, any_value(rate_nanos_per_hour)::decimal(38, 0)
    from marts.fct_charges where billing_period = $period group by all order by all
"""

_ENGINE = """
    select cluster_id, pod_uid, sum(use_millionths_average)::decimal(38, 0), count(*)
    from marts.fct_gpu_use
    where billing_period = $period and pod_uid <> '' and use_millionths_average is not null
    group by all order by all
"""

_BILLED = """
    select tenant, sum(cost_nanos)::decimal(38, 0) from marts.fct_charges
    where billing_period = $period and belongs_to = 'tenant' group by all order by all
"""

SEEN_BY_SAMPLES = frozenset({"confirmed", "samples_only", "disputed"})


def compare_period(home: Home, period: BillingPeriod) -> list[Difference]:
    """What other tools would have billed for the facts of a period."""
    with connected(home.warehouse_path, read_only=True) as connection:
        return compare(_lives(connection, period), _billed(connection, period))


def _lives(connection: duckdb.DuckDBPyConnection, period: BillingPeriod) -> list[PodLife]:
    rates = {rate: int(nanos) for rate, nanos in _rows(connection, _RATES, period)}
    seconds: defaultdict[tuple[Any, ...], int] = defaultdict(int)
    sampled: defaultdict[tuple[Any, ...], list[Interval]] = defaultdict(list)
    for *key, billed, method, started_at, ended_at in _rows(connection, _SEGMENTS, period):
        seconds[tuple(key)] += billed
        if method in SEEN_BY_SAMPLES:
            sampled[tuple(key)].append(Interval(_utc(started_at), _utc(ended_at)))
    active = {
        (cluster, pod_uid): Fraction(int(millionths), 10**6 * readings)
        for cluster, pod_uid, millionths, readings in _rows(connection, _ENGINE, period)
    }
    return [
        PodLife(
            tenant=tenant,
            pod_uid=pod_uid,
            device_count=count,
            weight=Fraction(numerator, denominator),
            rate_nanos_per_hour=rates.get(rate, 0),
            billed_seconds=billed,
            sampled=tuple(union(sampled[key])),
            engine_active=active.get((cluster, pod_uid)),
        )
        for key, billed in sorted(seconds.items())
        for tenant, cluster, pod_uid, count, numerator, denominator, rate in [key]
    ]


def _billed(connection: duckdb.DuckDBPyConnection, period: BillingPeriod) -> dict[str, int]:
    return {tenant: int(nanos) for tenant, nanos in _rows(connection, _BILLED, period)}


def _rows(
    connection: duckdb.DuckDBPyConnection, statement: str, period: BillingPeriod
) -> list[tuple[Any, ...]]:
    return connection.execute(statement, {"period": period.name}).fetchall()


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)
