-- The hours of the clusters for the report of the programme owner.
select
    cluster_id,
    hour_started_at,
    active_worker_nodes,
    active_worker_nodes_max,
    sum_of_node_max,
    sum_of_node_max_bound,
    simultaneous_max,
    how_known
from marts.fct_cluster_hours
where billing_period = $period
order by all
