-- Which nodes were full, and for how many hours?
--
-- An hour counts if at some instant all cards of the node had a running pod. A card with running
-- slices has a running pod. Unmeasured hours do not count.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No node was counted in this period.
with names as (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters group by all
)

select
    names.cluster_name,
    hours.node_name,
    count(*) as hour_count,
    count(*) filter (where hours.gpu_count_max >= hours.gpu_capacity) as full_hour_count,
    max(hours.gpu_count_max) as gpu_count_max,
    max(hours.gpu_capacity) as gpu_capacity
from fct_node_hours as hours
inner join names on hours.cluster_id = names.cluster_id
where
    hours.billing_period = $period
    and hours.gpu_capacity > 0
    and hours.unmeasured_seconds < 3600
group by all
order by full_hour_count desc, cluster_name asc, node_name asc
