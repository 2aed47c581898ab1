-- The terms of a node's share-seconds add up to its installed capacity, and none are allocated
-- beyond the capacity.
with

clusters as (

    select distinct cluster_id
    from marts.fct_coverage
    where billing_period = $period

),

nodes as (

    select
        cluster_id,
        concat_ws(' ', 'node', node_name, gpu_class, dimension) as node,
        sum(abs(
            installed_share_seconds - (
                running_share_seconds
                + held_share_seconds
                + idle_share_seconds
                + unsold_share_seconds
                + unhealthy_share_seconds
                + withdrawn_share_seconds
                + unmeasured_share_seconds
                - overallocated_share_seconds
            )
        )) as difference,
        sum(overallocated_share_seconds) as overallocated
    from marts.fct_node_share_hours
    where billing_period = $period
    group by all

)

select
    'cluster ' || cluster_id || ', ' || node as place,
    difference,
    0 as no_difference,
    overallocated,
    0 as no_overallocation
from nodes
union all
select
    'cluster ' || clusters.cluster_id as place,
    coalesce(sum(nodes.difference), 0) as difference,
    0 as no_difference,
    coalesce(sum(nodes.overallocated), 0) as overallocated,
    0 as no_overallocation
from clusters
left join nodes
    on clusters.cluster_id = nodes.cluster_id
group by all
