"""The gates: what is looked at before money is asked for, as small tables.

Put here: one statement per gate, over the marts.
Not here: what is expected of a gate (`expectations`).

Each has a row even in a month without any use, so that no suite is ever vacuous.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GATES: Mapping[str, str] = MappingProxyType(
    {
        "gate_coverage": """
            select cluster_id, source,
                count(*) as hour_count,
                count(distinct hour_started_at) as distinct_hour_count,
                sum(expected_count)::varchar as expected_count,
                sum(seen_count + missing_count)::varchar as accounted_count,
                min(expected_count) as smallest_expected_count,
                min(least(seen_count, missing_count)) as smallest_count
            from marts.fct_coverage where billing_period = $period
            group by all order by all
        """,
        "gate_tenants": """
            with charged as (
                select tenant, belongs_to, sum(device_seconds) as seconds, sum(cost_nanos) as nanos
                from marts.fct_charges where billing_period = $period group by all
            ),
            counted as (
                select tenant, belongs_to, sum(billable_seconds * device_count) as seconds,
                    sum(cost_nanos) as nanos
                from marts.fct_pod_hours where billing_period = $period group by all
            ),
            sides as (
                select coalesce(charged.tenant, counted.tenant) as tenant,
                    coalesce(charged.belongs_to, counted.belongs_to) as belongs_to,
                    coalesce(counted.seconds, 0) as counted_seconds,
                    coalesce(charged.seconds, 0) as charged_seconds,
                    coalesce(counted.nanos, 0) as counted_nanos,
                    coalesce(charged.nanos, 0) as charged_nanos
                from charged full outer join counted using (tenant, belongs_to)
            )
            select tenant, belongs_to, counted_seconds::varchar as counted_seconds,
                charged_seconds::varchar as charged_seconds,
                counted_nanos::varchar as counted_nanos, charged_nanos::varchar as charged_nanos
            from sides
            union all
            select '(all)', 'provider', coalesce(sum(counted_seconds), 0)::varchar,
                coalesce(sum(charged_seconds), 0)::varchar,
                coalesce(sum(counted_nanos), 0)::varchar,
                coalesce(sum(charged_nanos), 0)::varchar
            from sides
            order by all
        """,
        "gate_values": """
            with clusters as (
                select distinct cluster_id from marts.fct_coverage where billing_period = $period
            ),
            pod_hours as (
                select * from marts.fct_pod_hours where billing_period = $period
            )
            select clusters.cluster_id,
                count(*) filter (
                    least(running_seconds, held_seconds, billable_seconds, uncertainty_seconds) < 0
                ) as negative_count,
                count(*) filter (cost_nanos < 0) as negative_cost_count,
                count(*) filter (device_count < 1) as deviceless_count,
                count(*) filter (tenant = '' or pod_uid = '') as nameless_count,
                count(*) filter (
                    weight_denominator < 1 or weight_numerator < 0
                    or weight_numerator > weight_denominator
                ) as impossible_weight_count,
                count(*) filter (billable_seconds > 3600) as overlong_count
            from clusters left join pod_hours using (cluster_id)
            group by all order by all
        """,
    }
)
