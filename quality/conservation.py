"""Conservation: sums that are the same thing by definition must be the same number, with `==`.

Put here: the identities, each a named check as one SQL statement over the marts, and what a broken
one means.
Not here: identities that dbt's own tests hold, or who runs these (`run`).

Each statement returns one row per thing compared, with `place`, `left_sum` and `right_sum`. Each
compares the clusters of the calendar as well as the rows, so that a month without use is evaluated
too, and a check that returns no row at all has not looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from domain.findings import Check, Finding
from quality.catalogue import CATALOGUE


@dataclass(frozen=True, slots=True, order=True)
class Comparison:
    """Two numbers that must be one."""

    place: str
    left_sum: int
    right_sum: int

    @property
    def holds(self) -> bool:
        return self.left_sum == self.right_sum


_CHARGE_KEY = """
    tenant, belongs_to, cluster_id, gpu_class, mig_profile,
    weight_numerator, weight_denominator, weight_policy, rate_id
"""

_CLUSTERS = """
    clusters as (
        select distinct cluster_id from marts.fct_coverage where billing_period = $period
    )
"""

_CAPACITY = """
    with {clusters},
    nodes as (
        select cluster_id, concat_ws(' ', 'node', node_name, gpu_class, dimension) as node,
            sum({compared}) as left_sum, {against} as right_sum
        from marts.fct_node_share_hours where billing_period = $period
        group by all
    )
    select 'cluster ' || cluster_id || ', ' || node as place,
        left_sum::decimal(38, 0) as left_sum, right_sum::decimal(38, 0) as right_sum
    from nodes
    union all
    select 'cluster ' || clusters.cluster_id, coalesce(sum(left_sum), 0)::decimal(38, 0),
        coalesce(sum(right_sum), 0)::decimal(38, 0)
    from clusters left join nodes using (cluster_id) group by all
"""

_SHARE_TERMS = """
    running_share_seconds + held_share_seconds + idle_share_seconds + unsold_share_seconds
    + unhealthy_share_seconds + withdrawn_share_seconds + unmeasured_share_seconds
    - overallocated_share_seconds
"""

FINDINGS: Mapping[str, str] = MappingProxyType(
    {
        "shares_add_up_to_capacity": "capacity_not_conserved",
        "no_node_gives_more_than_it_has": "more_allocated_than_capacity",
    }
)
"""What a broken identity is called when it is more than two sums that differ."""

IDENTITIES: Mapping[str, str] = MappingProxyType(
    {
        "shares_add_up_to_capacity": _CAPACITY.format(
            clusters=_CLUSTERS,
            compared=f"abs(installed_share_seconds - ({_SHARE_TERMS}))",
            against="0",
        ),
        "no_node_gives_more_than_it_has": _CAPACITY.format(
            clusters=_CLUSTERS, compared="overallocated_share_seconds", against="0"
        ),
        "pod_seconds_add_up_to_charges": f"""
            with {_CLUSTERS},
            sides as (
                select {_CHARGE_KEY}, 0 as left_part, device_seconds as right_part
                from marts.fct_charges where billing_period = $period
                union all
                select {_CHARGE_KEY}, billable_seconds * device_count, 0
                from marts.fct_pod_hours
                where billing_period = $period and billable_seconds > 0
            )
            select concat_ws(' ', 'charge of', {_CHARGE_KEY}) as place,
                sum(left_part)::decimal(38, 0) as left_sum,
                sum(right_part)::decimal(38, 0) as right_sum
            from sides group by all
            union all
            select 'cluster ' || clusters.cluster_id,
                coalesce(sum(left_part), 0)::decimal(38, 0),
                coalesce(sum(right_part), 0)::decimal(38, 0)
            from clusters left join sides using (cluster_id) group by all
        """,
        "pod_costs_add_up_to_charges": f"""
            with {_CLUSTERS},
            sides as (
                select {_CHARGE_KEY}, 0::decimal(38, 0) as left_part, cost_nanos as right_part
                from marts.fct_charges where billing_period = $period
                union all
                select {_CHARGE_KEY}, cost_nanos, 0
                from marts.fct_pod_hours where billing_period = $period
            )
            select concat_ws(' ', 'charge of', {_CHARGE_KEY}) as place,
                sum(left_part)::decimal(38, 0) as left_sum,
                sum(right_part)::decimal(38, 0) as right_sum
            from sides group by all
            union all
            select 'cluster ' || clusters.cluster_id,
                coalesce(sum(left_part), 0)::decimal(38, 0),
                coalesce(sum(right_part), 0)::decimal(38, 0)
            from clusters left join sides using (cluster_id) group by all
        """,
        "no_pod_holds_a_device_twice": f"""
            with {_CLUSTERS},
            following as (
                select cluster_id, pod_uid, resource, segment_ended_at,
                    lead(segment_started_at) over (
                        partition by cluster_id, pod_uid, resource
                        order by segment_started_at, segment_ended_at
                    ) as next_started_at
                from marts.fct_pod_hours where billing_period = $period
            )
            select 'cluster ' || clusters.cluster_id as place,
                count(*) filter (next_started_at < segment_ended_at) as left_sum,
                0 as right_sum
            from clusters left join following using (cluster_id) group by all
        """,
        "no_pod_hour_leaves_its_hour": f"""
            with {_CLUSTERS},
            pod_hours as (
                select * from marts.fct_pod_hours where billing_period = $period
            )
            select 'cluster ' || clusters.cluster_id as place,
                count(*) filter (
                    segment_started_at < hour_started_at
                    or segment_ended_at > hour_started_at + interval 1 hour
                    or segment_ended_at < segment_started_at
                    or billable_seconds > epoch(segment_ended_at - segment_started_at)
                ) as left_sum,
                0 as right_sum
            from clusters left join pod_hours using (cluster_id) group by all
        """,
    }
)


def check_of(name: str, comparisons: Sequence[Comparison]) -> Check:
    """How much a named check looked at, and how much of it failed."""
    return Check(name, len(comparisons), sum(not c.holds for c in comparisons))


def sum_findings(name: str, comparisons: Iterable[Comparison]) -> list[Finding]:
    """One finding per broken place."""
    kind = CATALOGUE[FINDINGS.get(name, "sums_differ")]
    return [
        kind.finding(
            where=f"{name}: {broken.place}",
            seen=f"{broken.left_sum} and {broken.right_sum}, "
            f"a difference of {broken.left_sum - broken.right_sum}",
        )
        for broken in sorted(comparisons)
        if not broken.holds
    ]
