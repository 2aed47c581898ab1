"""What the provider's statement is made of, read from the marts; an edge.

Put here: the SQL for capacity, cluster-hours and node-hours.
Not here: usage, which every document is made of (`reader`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from billing.ccsp import cluster_hours, measures, node_hours
from billing.statement import TERMS, Capacity, ProviderFacts
from billing.usage import Usage
from domain.billing_period import BillingPeriod
from domain.findings import CoverageStatus
from domain.tenant import BelongsTo

if TYPE_CHECKING:
    import duckdb

_TERMS = ", ".join(f"sum({name}_share_seconds)::decimal(38, 0)" for name in TERMS)

_CAPACITY = f"""
    select cluster_id, gpu_class, dimension, share_denominator,
        sum(installed_share_seconds)::decimal(38, 0),
        sum(overallocated_share_seconds)::decimal(38, 0), {_TERMS}
    from marts.fct_node_share_hours where billing_period = $period
    group by all order by all
"""

_OWN_SHARES = """
    select cluster_id, gpu_class, dimension, numerator, denominator,
        sum(running_seconds * device_count)::decimal(38, 0)
    from (
        select cluster_id, gpu_class, 'compute' as dimension, running_seconds, device_count,
            compute_share_numerator as numerator, compute_share_denominator as denominator
        from marts.fct_pod_hours where billing_period = $period and belongs_to = 'provider'
        union all
        select cluster_id, gpu_class, 'memory', running_seconds, device_count,
            memory_share_numerator, memory_share_denominator
        from marts.fct_pod_hours where billing_period = $period and belongs_to = 'provider'
    ) as shares
    group by all order by all
"""

_CLUSTER_HOURS = """
    select cluster_id, hour_started_at, active_worker_nodes, active_worker_nodes_max,
        sum_of_node_max, sum_of_node_max_bound, simultaneous_max, how_known
    from marts.fct_cluster_hours where billing_period = $period order by all
"""

_NODE_HOURS = """
    select cluster_id, node_name, hour_started_at, gpu_capacity, gpu_count_max,
        gpu_count_max_bound, how_known
    from marts.fct_node_hours where billing_period = $period order by all
"""


def read_provider_facts(
    connection: duckdb.DuckDBPyConnection,
    period: BillingPeriod,
    usage: Usage,
    coverage_statuses: Sequence[CoverageStatus],
) -> ProviderFacts:
    """Capacity and the programme's hours, of the same facts that usage was read from."""
    measured = measures(coverage_statuses)
    counted: dict[tuple[str, datetime], Any] = {
        (cluster, _utc(hour)): tuple(counts)
        for cluster, hour, *counts in _rows(connection, _CLUSTER_HOURS, period)
    }
    nodes = [
        (cluster, node, _utc(hour), *rest)
        for cluster, node, hour, *rest in _rows(connection, _NODE_HOURS, period)
    ]
    own = [c for c in usage.charges if c.key.belongs_to is BelongsTo.PROVIDER]
    return ProviderFacts(
        capacity=_capacity(connection, period),
        own_charges=sorted(own),
        cluster_hours=cluster_hours(measured, counted),
        node_hours=node_hours(measured, nodes),
    )


def _capacity(connection: duckdb.DuckDBPyConnection, period: BillingPeriod) -> list[Capacity]:
    own: defaultdict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for cluster, gpu_class, dimension, numerator, denominator, seconds in _rows(
        connection, _OWN_SHARES, period
    ):
        own[cluster, gpu_class, dimension] += int(seconds) * Fraction(numerator, denominator)
    return [
        Capacity(
            cluster_id=cluster,
            gpu_class=gpu_class,
            dimension=dimension,
            share_denominator=unit,
            installed=int(installed),
            terms={name: int(value) for name, value in zip(TERMS, terms, strict=True)},
            overallocated=int(over),
            running_of_provider=own[cluster, gpu_class, dimension] * unit,
        )
        for cluster, gpu_class, dimension, unit, installed, over, *terms in _rows(
            connection, _CAPACITY, period
        )
    ]


def _rows(
    connection: duckdb.DuckDBPyConnection, statement: str, period: BillingPeriod
) -> list[tuple[Any, ...]]:
    return connection.execute(statement, {"period": period.name}).fetchall()


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)
