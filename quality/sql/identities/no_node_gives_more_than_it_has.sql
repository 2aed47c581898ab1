-- No node has more share-seconds allocated than installed.
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
        sum(overallocated_share_seconds) as left_sum,
        0 as right_sum
    from marts.fct_node_share_hours
    where billing_period = $period
    group by all

)

select
    'cluster ' || cluster_id || ', ' || node as place,
    cast(left_sum as decimal(38, 0)) as left_sum,
    cast(right_sum as decimal(38, 0)) as right_sum
from nodes
union all
select
    'cluster ' || clusters.cluster_id as place,
    cast(coalesce(sum(nodes.left_sum), 0) as decimal(38, 0)) as left_sum,
    cast(coalesce(sum(nodes.right_sum), 0) as decimal(38, 0)) as right_sum
from clusters
left join nodes
    on clusters.cluster_id = nodes.cluster_id
group by all
