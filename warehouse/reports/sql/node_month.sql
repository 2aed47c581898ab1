-- Each expected hour of a month; one that was not measured is marked and has no number.
select
    cluster_name,
    hour_started_at,
    measurement,
    node_name,
    gpu_count_max,
    gpu_count_max_bound,
    how_known,
    active_worker_nodes,
    active_worker_nodes_max,
    cluster_gpu_count_max,
    cluster_gpu_count_max_bound,
    cluster_how_known,
    is_lower_bound
from rpt_ccsp_hours
where billing_period = $period
order by cluster_name, cluster_id, hour_started_at, node_name
