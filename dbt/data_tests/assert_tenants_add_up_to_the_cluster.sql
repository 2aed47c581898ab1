-- Invariant 3: tenants, the provider's own use among them, add up to all pod-hours of each cluster,
-- hour, class and profile with ==.
with

tenants as (

    select
        cluster_id,
        hour_started_at,
        gpu_class,
        mig_profile,
        sum(running_device_seconds) as running_device_seconds,
        sum(held_device_seconds) as held_device_seconds,
        sum(billable_device_seconds) as billable_device_seconds,
        sum(cost_nanos) as cost_nanos
    from {{ ref('fct_tenant_hours') }}
    group by cluster_id, hour_started_at, gpu_class, mig_profile

),

pods as (

    select
        cluster_id,
        hour_started_at,
        gpu_class,
        mig_profile,
        sum(running_seconds * device_count) as running_device_seconds,
        sum(held_seconds * device_count) as held_device_seconds,
        sum(billable_seconds * device_count) as billable_device_seconds,
        sum(cost_nanos) as cost_nanos
    from {{ ref('fct_pod_hours') }}
    group by cluster_id, hour_started_at, gpu_class, mig_profile

)

select *
from tenants
full outer join pods
    on
        tenants.cluster_id = pods.cluster_id
        and tenants.hour_started_at = pods.hour_started_at
        and tenants.gpu_class = pods.gpu_class
        and tenants.mig_profile = pods.mig_profile
where
    tenants.cluster_id is null
    or pods.cluster_id is null
    or tenants.running_device_seconds <> pods.running_device_seconds
    or tenants.held_device_seconds <> pods.held_device_seconds
    or tenants.billable_device_seconds <> pods.billable_device_seconds
    or coalesce(tenants.cost_nanos, 0) <> coalesce(pods.cost_nanos, 0)
