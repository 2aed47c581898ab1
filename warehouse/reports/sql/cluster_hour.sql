-- One row per expected cluster of an hour; an hour that was not measured has no numbers.
with

report_hours as (

    select distinct
        cluster_id,
        cluster_name,
        hour_started_at,
        measurement
    from rpt_ccsp_hours
    where hour_started_at = $at

)

select
    report_hours.cluster_name,
    report_hours.hour_started_at,
    report_hours.measurement,
    hours.active_worker_nodes,
    hours.active_worker_nodes_max,
    hours.sum_of_node_max,
    hours.sum_of_node_max_bound,
    hours.simultaneous_max,
    hours.how_known,
    hours.is_lower_bound,
    hours.gpu_capacity
from report_hours
left join fct_cluster_hours as hours
    on
        report_hours.cluster_id = hours.cluster_id
        and report_hours.hour_started_at = hours.hour_started_at
        and report_hours.measurement <> 'not measured'
order by report_hours.cluster_name, report_hours.cluster_id
