-- Which MIG instances were not used?
--
-- Existing instances per node and profile, in seconds of instances: in use (running or held) and
-- idle.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No node had MIG instances in this period.
with names as (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters group by all
)

select
    names.cluster_name,
    hours.node_name,
    hours.gpu_class,
    hours.mig_profile,
    max(hours.device_capacity) as instance_count,
    cast(sum(hours.capacity_device_seconds) as bigint) as instance_seconds,
    cast(sum(hours.running_device_seconds + hours.held_device_seconds) as bigint)
        as used_instance_seconds,
    cast(
        sum(
            hours.capacity_device_seconds - hours.running_device_seconds
            - hours.held_device_seconds
        ) as bigint
    ) as idle_instance_seconds
from fct_node_class_hours as hours
inner join names on hours.cluster_id = names.cluster_id
where hours.billing_period = $period and hours.mig_profile not in ('whole', '')
group by all
order by idle_instance_seconds desc, cluster_name asc, node_name asc, gpu_class asc, mig_profile asc
