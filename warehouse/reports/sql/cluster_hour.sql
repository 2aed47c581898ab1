-- One row per cluster that is expected in an hour; without numbers where it was not measured.
with

reported as (

    select distinct
        cluster_id,
        cluster_name,
        hour_started_at,
        measurement
    from rpt_ccsp_hours
    where hour_started_at = $at

)

select
    reported.cluster_name,
    reported.hour_started_at,
    reported.measurement,
    hours.active_worker_nodes,
    hours.active_worker_nodes_max,
    hours.sum_of_node_max,
    hours.sum_of_node_max_bound,
    hours.simultaneous_max,
    hours.how_known,
    hours.is_lower_bound,
    hours.gpu_capacity
from reported
left join fct_cluster_hours as hours
    on
        reported.cluster_id = hours.cluster_id
        and reported.hour_started_at = hours.hour_started_at
        and reported.measurement <> 'not measured'
order by reported.cluster_name, reported.cluster_id
