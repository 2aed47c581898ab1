"""Node-hours as a programme owner asks for them: who was active, how many cards, which pods.

Put here: the answers about one hour and about every hour of a month.
Not here: how cards are counted (`dbt/`).
"""

from __future__ import annotations

from datetime import datetime

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval
from warehouse.reports.source import Facts, Row

CLUSTER_COLUMNS = (
    "cluster_name",
    "hour_started_at",
    "measurement",
    "active_worker_nodes",
    "active_worker_nodes_max",
    "sum_of_node_max",
    "sum_of_node_max_bound",
    "simultaneous_max",
    "how_known",
    "is_lower_bound",
    "gpu_capacity",
)
NODE_COLUMNS = (
    "cluster_name",
    "node_name",
    "gpu_count_max",
    "gpu_count_max_bound",
    "gpu_capacity",
    "how_known",
    "is_lower_bound",
    "pods",
)
MONTH_COLUMNS = (
    "cluster_name",
    "hour_started_at",
    "measurement",
    "node_name",
    "gpu_count_max",
    "gpu_count_max_bound",
    "how_known",
    "active_worker_nodes",
    "active_worker_nodes_max",
    "cluster_gpu_count_max",
    "cluster_gpu_count_max_bound",
    "cluster_how_known",
    "is_lower_bound",
)

_CLUSTERS = """
    with reported as (
        select distinct cluster_id, cluster_name, hour_started_at, measurement
        from rpt_ccsp_hours
        where hour_started_at = $at
    )
    select
        reported.cluster_name,
        reported.hour_started_at,
        reported.measurement,
        if(reported.measurement = 'not measured', null, hours.active_worker_nodes)
            as active_worker_nodes,
        if(reported.measurement = 'not measured', null, hours.active_worker_nodes_max)
            as active_worker_nodes_max,
        if(reported.measurement = 'not measured', null, hours.sum_of_node_max) as sum_of_node_max,
        if(reported.measurement = 'not measured', null, hours.sum_of_node_max_bound)
            as sum_of_node_max_bound,
        if(reported.measurement = 'not measured', null, hours.simultaneous_max)
            as simultaneous_max,
        if(reported.measurement = 'not measured', null, hours.how_known) as how_known,
        if(reported.measurement = 'not measured', null, hours.is_lower_bound) as is_lower_bound,
        if(reported.measurement = 'not measured', null, hours.gpu_capacity) as gpu_capacity
    from reported
    left join fct_cluster_hours as hours
        on reported.cluster_id = hours.cluster_id
        and reported.hour_started_at = hours.hour_started_at
    order by reported.cluster_name, reported.cluster_id
"""

# At which instant a node had most in use: the pods that were there are those that made the maximum.
# 720720 is the smallest number that 1 to 16 divide: shares are only put in order by it.
_NODES = """
    with running as (
        select
            cluster_id,
            node_name,
            tenant || '/' || pod_name as pod,
            segment_started_at,
            segment_ended_at,
            device_count * compute_share_numerator * (720720 // compute_share_denominator) as share
        from fct_pod_hours
        where hour_started_at = $at and state = 'running' and running_seconds > 0
    ),

    instants as (
        select distinct cluster_id, node_name, segment_started_at as instant from running
    ),

    levels as (
        select
            instants.cluster_id,
            instants.node_name,
            instants.instant,
            sum(running.share) as share,
            list(distinct running.pod order by running.pod) as pods
        from instants
        inner join running
            on instants.cluster_id = running.cluster_id
            and instants.node_name = running.node_name
            and running.segment_started_at <= instants.instant
            and running.segment_ended_at > instants.instant
        group by instants.cluster_id, instants.node_name, instants.instant
    ),

    most as (
        select cluster_id, node_name, pods
        from levels
        qualify row_number() over (
            partition by cluster_id, node_name order by share desc, instant
        ) = 1
    ),

    names as (
        select cluster_id, max(cluster_name) as cluster_name from dim_clusters group by all
    )

    select
        names.cluster_name,
        hours.node_name,
        hours.gpu_count_max,
        hours.gpu_count_max_bound,
        hours.gpu_capacity,
        hours.how_known,
        hours.is_lower_bound,
        hours.unmeasured_seconds,
        coalesce(most.pods, []) as pods
    from fct_node_hours as hours
    inner join names on hours.cluster_id = names.cluster_id
    left join most
        on hours.cluster_id = most.cluster_id and hours.node_name = most.node_name
    where hours.hour_started_at = $at and hours.unmeasured_seconds < 3600
    order by names.cluster_name, hours.node_name
"""

_MONTH = """
    select {columns}
    from rpt_ccsp_hours
    where billing_period = $period
    order by cluster_name, cluster_id, hour_started_at, node_name
"""


def cluster_hour(facts: Facts, at: datetime) -> list[Row]:
    """One row per cluster that was expected in the hour; no numbers where nobody measured."""
    facts.require(Interval(at, at + HOUR))
    return facts.rows(_CLUSTERS, {"at": at})


def node_hour(facts: Facts, at: datetime) -> list[Row]:
    """One row per node of the hour, with the pods that ran when most of it was in use."""
    facts.require(Interval(at, at + HOUR))
    return facts.rows(_NODES, {"at": at})


def node_month(facts: Facts, period: BillingPeriod) -> list[Row]:
    """Every expected hour of a month; one that was not measured is marked and has no number."""
    facts.require(Interval(period.started_at, period.started_at + HOUR))
    statement = _MONTH.format(columns=", ".join(MONTH_COLUMNS))
    return facts.rows(statement, {"period": period.name})
