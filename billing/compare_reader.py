"""What the rules of other tools are applied to, read from the marts; an edge.

Put here: pods with their samples and their price, and what they were billed.
Not here: the rules (`compare`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from billing.compare import Difference, PodLife, Sampled, compare
from domain.billing_period import BillingPeriod
from domain.interval import Interval, union
from warehouse.connection import connected
from warehouse.home import Home

if TYPE_CHECKING:
    import duckdb

# One row per pod, kind of device and price, in order of time within a pod's resource.
_SEGMENTS = """
    with prices as (
        select rate_id, any_value(rate_nanos_per_hour)::decimal(38, 0) as rate_nanos_per_hour
        from marts.fct_charges where billing_period = $period group by rate_id
    )
    select cluster_id, pod_uid, resource, min(segment_started_at) as first_started_at, tenant,
        gpu_class, mig_profile <> 'whole', device_count, weight_numerator, weight_denominator,
        compute_share_numerator, compute_share_denominator, rate_nanos_per_hour
    from marts.fct_pod_hours inner join prices using (rate_id)
    where billing_period = $period and belongs_to = 'tenant' and rate_id <> ''
    group by all order by all
"""

_SAMPLED = """
    select cluster_id, pod_uid, first_sampled_at, last_sampled_at
    from marts.fct_sampled_pods where billing_period = $period order by all
"""

_OUTAGES = """
    select cluster_id, segment_started_at, segment_ended_at
    from marts.fct_pod_hours where billing_period = $period and is_outage order by all
"""

_BILLED = """
    select tenant, sum(cost_nanos)::decimal(38, 0)
    from (
        select tenant, cost_nanos from marts.fct_charges
        where billing_period = $period and belongs_to = 'tenant'
        union all
        select tenant, credit_nanos from marts.fct_outage_credits
        where billing_period = $period and belongs_to = 'tenant'
    )
    group by all order by all
"""

Pod = tuple[str, str]


def compare_period(home: Home, period: BillingPeriod) -> list[Difference]:
    """What other tools would have billed for the facts of a period."""
    with connected(home.warehouse_path, read_only=True) as connection:
        billed = {name: int(nanos) for name, nanos in _rows(connection, _BILLED, period)}
        return compare(_lives(connection, period), billed)


def _lives(connection: duckdb.DuckDBPyConnection, period: BillingPeriod) -> Iterator[PodLife]:
    sampled: defaultdict[Pod, list[Sampled]] = defaultdict(list)
    for cluster, uid, first, last in _rows(connection, _SAMPLED, period):
        sampled[cluster, uid].append(Sampled(_utc(first), _utc(last)))
    pieces: defaultdict[str, list[Interval]] = defaultdict(list)
    for cluster, first, last in _rows(connection, _OUTAGES, period):
        pieces[cluster].append(Interval(_utc(first), _utc(last)))
    outages = {cluster: tuple(union(found)) for cluster, found in pieces.items()}
    rows = _rows(connection, _SEGMENTS, period)
    for (cluster, uid, _), of_pod in groupby(rows, key=lambda row: row[:3]):
        found = list(of_pod)
        # Where the price changes, the samples up to then are the earlier price's.
        starts = [period.started_at, *(_utc(row[3]) for row in found[1:]), period.ended_at]
        for row, (first, until) in zip(found, pairwise(starts), strict=True):
            tenant, gpu_class, is_slice, count, *fractions, rate = row[4:]
            yield PodLife(
                tenant=tenant,
                cluster_id=cluster,
                pod_uid=uid,
                gpu_class=gpu_class,
                is_slice=is_slice,
                device_count=count,
                weight=Fraction(*fractions[:2]),
                compute_share=Fraction(*fractions[2:]),
                rate_nanos_per_hour=int(rate),
                window=Interval(first, until),
                sampled=tuple(_clipped(sampled[cluster, uid], first, until)),
                outages=outages.get(cluster, ()),
            )


def _clipped(runs: Sequence[Sampled], first: datetime, until: datetime) -> Iterator[Sampled]:
    for run in runs:
        if run.first_at < until and run.last_at >= first:
            yield Sampled(max(run.first_at, first), min(run.last_at, until))


def _rows(
    connection: duckdb.DuckDBPyConnection, statement: str, period: BillingPeriod
) -> list[tuple[Any, ...]]:
    return connection.execute(statement, {"period": period.name}).fetchall()


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)
