-- Invariant 4: the active cards at one instant, in a cluster and in the fleet, are at most the sum
-- of the nodes' maxima, and at least the maximum of any node or cluster.
select
    cluster_id,
    hour_started_at,
    simultaneous_max,
    sum_of_node_max,
    gpu_capacity
from {{ ref('fct_cluster_hours') }}
where
    simultaneous_max > sum_of_node_max
    or sum_of_node_max > gpu_capacity
    or sum_of_node_max_bound > sum_of_node_max
    or active_worker_nodes > active_worker_nodes_max
union all
select
    '(fleet)' as cluster_id,
    fleet.hour_started_at,
    fleet.simultaneous_max,
    fleet.sum_of_node_max,
    fleet.gpu_capacity
from {{ ref('fct_fleet_hours') }} as fleet
inner join (
    select
        hour_started_at,
        max(simultaneous_max) as busiest_simultaneous_max,
        sum(simultaneous_max) as added_simultaneous_max,
        max(active_worker_nodes_max) as busiest_workers_max,
        sum(active_worker_nodes_max) as added_workers_max
    from {{ ref('fct_cluster_hours') }}
    group by hour_started_at
) as clusters
    on fleet.hour_started_at = clusters.hour_started_at
where
    fleet.simultaneous_max > fleet.sum_of_node_max
    or fleet.simultaneous_max > clusters.added_simultaneous_max
    or fleet.simultaneous_max < clusters.busiest_simultaneous_max
    or fleet.active_worker_nodes_max > clusters.added_workers_max
    or fleet.active_worker_nodes_max < clusters.busiest_workers_max
    or fleet.active_worker_nodes > fleet.active_worker_nodes_max
    or fleet.sum_of_node_max > fleet.gpu_capacity
