-- The hours of the nodes for the report of the programme owner.
select
    cluster_id,
    node_name,
    hour_started_at,
    gpu_capacity,
    gpu_count_max,
    gpu_count_max_bound,
    how_known
from marts.fct_node_hours
where billing_period = $period
order by all
