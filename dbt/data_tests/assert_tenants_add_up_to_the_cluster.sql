-- Invariant 3: tenants, the provider's own use among them, add up to all pod-hours with ==.
select *
from (
    select
        cluster_id,
        sum(running_device_seconds) as running_device_seconds,
        sum(cost_nanos) as cost_nanos
    from {{ ref('fct_tenant_hours') }}
    group by cluster_id
) as tenants
full outer join (
    select
        cluster_id,
        sum(running_seconds * device_count) as running_device_seconds,
        sum(cost_nanos) as cost_nanos
    from {{ ref('fct_pod_hours') }}
    group by cluster_id
) as pods
    on tenants.cluster_id = pods.cluster_id
where
    tenants.cluster_id is null
    or pods.cluster_id is null
    or tenants.running_device_seconds <> pods.running_device_seconds
    or tenants.cost_nanos <> pods.cost_nanos
