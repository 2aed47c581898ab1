-- Capacity per node and profile at an instant: what there is, may be used, is held, and by whom.
with

names as (

    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters
    group by all

),

-- An allocation may have several segments; an instant lies in one of them.
held as (

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
    cast(coalesce(held.device_allocated, 0) as bigint) as device_allocated,
    coalesce(held.holders, []) as holders
from fct_node_class_hours as hours
inner join names
    on hours.cluster_id = names.cluster_id
left join held
    on
        hours.cluster_id = held.cluster_id
        and hours.node_name = held.node_name
        and hours.gpu_class = held.gpu_class
        and hours.mig_profile = held.mig_profile
where
    hours.hour_started_at = $hour
    and (hours.device_capacity > 0 or held.device_allocated is not null)
order by all
