-- The capacity per node and profile at an instant: devices, allocatable devices, allocated devices,
-- and their holders.
with

names as (

    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters
    group by all

),

-- An allocation may have several segments; only one of them contains the instant.
held_devices as (

    select
        cluster_id,
        node_name,
        gpu_class,
        mig_profile,
        sum(device_count) as device_allocated,
        list(tenant || '/' || pod_name order by tenant, pod_name) as holders
    from fct_pod_hours
    where
        hour_started_at = $hour
        and segment_started_at <= $at
        and segment_ended_at > $at
        and running_seconds + held_seconds > 0
    group by all

)

select
    names.cluster_name,
    hours.node_name,
    hours.gpu_class,
    hours.mig_profile,
    hours.device_capacity,
    hours.device_allocatable,
    cast(coalesce(held_devices.device_allocated, 0) as bigint) as device_allocated,
    coalesce(held_devices.holders, []) as holders
from fct_node_class_hours as hours
inner join names
    on hours.cluster_id = names.cluster_id
left join held_devices
    on
        hours.cluster_id = held_devices.cluster_id
        and hours.node_name = held_devices.node_name
        and hours.gpu_class = held_devices.gpu_class
        and hours.mig_profile = held_devices.mig_profile
where
    hours.hour_started_at = $hour
    and (hours.device_capacity > 0 or held_devices.device_allocated is not null)
order by all
