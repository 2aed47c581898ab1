-- Invariant 3: an hour's nodes add up to its cluster, and its clusters to the fleet, with ==.
with

nodes as (

    select
        cluster_id,
        hour_started_at,
        sum(gpu_capacity) as gpu_capacity,
        sum(gpu_count_max) as sum_of_node_max,
        sum(gpu_count_max_bound) as sum_of_node_max_bound,
        sum(gpu_seconds) as gpu_seconds
    from {{ ref('fct_node_hours') }}
    group by cluster_id, hour_started_at

),

clusters as (

    select * from {{ ref('fct_cluster_hours') }}

),

sums as (

    select
        hour_started_at,
        count(*) as cluster_count,
        sum(gpu_capacity) as gpu_capacity,
        sum(sum_of_node_max) as sum_of_node_max,
        sum(sum_of_node_max_bound) as sum_of_node_max_bound,
        sum(gpu_seconds) as gpu_seconds,
        sum(active_worker_nodes) as active_worker_nodes
    from clusters
    group by hour_started_at

)

select
    coalesce(nodes.cluster_id, clusters.cluster_id) as cluster_id,
    coalesce(nodes.hour_started_at, clusters.hour_started_at) as hour_started_at
from clusters
full outer join nodes
    on
        clusters.cluster_id = nodes.cluster_id
        and clusters.hour_started_at = nodes.hour_started_at
where
    clusters.cluster_id is null
    or clusters.gpu_capacity <> coalesce(nodes.gpu_capacity, 0)
    or clusters.sum_of_node_max <> coalesce(nodes.sum_of_node_max, 0)
    or clusters.sum_of_node_max_bound <> coalesce(nodes.sum_of_node_max_bound, 0)
    or clusters.gpu_seconds <> coalesce(nodes.gpu_seconds, 0)
union all
select
    '(fleet)' as cluster_id,
    sums.hour_started_at
from sums
left join {{ ref('fct_fleet_hours') }} as fleet
    on sums.hour_started_at = fleet.hour_started_at
where
    fleet.hour_started_at is null
    or fleet.cluster_count <> sums.cluster_count
    or fleet.gpu_capacity <> sums.gpu_capacity
    or fleet.sum_of_node_max <> sums.sum_of_node_max
    or fleet.sum_of_node_max_bound <> sums.sum_of_node_max_bound
    or fleet.gpu_seconds <> sums.gpu_seconds
    or fleet.active_worker_nodes <> sums.active_worker_nodes
