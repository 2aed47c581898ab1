-- One row per device or node and problem of a period; pods and tenants as sorted lists.
with

names as (

    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters
    group by all

),

-- The rows of several affected pods repeat the observed value.
hours as (

    select
        *,
        case
            when row_number() over (
                partition by
                    cluster_id,
                    node_name,
                    device_uuid,
                    gpu_index,
                    instance_id,
                    problem,
                    component,
                    hour_started_at
                order by pod_uid
            ) = 1 then observed else 0
        end as observed_once
    from fct_gpu_health
    where
        billing_period = $period
        and ($tenant = '' or tenant = $tenant)

)

select
    coalesce(names.cluster_name, health.cluster_id) as cluster_name,
    health.node_name,
    health.device_uuid as device,
    health.gpu_index,
    health.instance_id,
    health.problem,
    health.component,
    case
        when health.problem in ('xid', 'throttled', 'row_remap_failed', 'hot')
            then max(health.observed)
        when health.problem = 'operator_not_ready' then min(health.observed)
        else cast(sum(health.observed_once) as bigint)
    end as observed,
    min(health.hour_started_at) as first_hour_started_at,
    max(health.hour_started_at) as last_hour_started_at,
    count(distinct health.hour_started_at) as hour_count,
    bool_or(health.is_fault_of_provider) as is_fault_of_provider,
    coalesce(
        list_sort(list_distinct(list(health.tenant) filter (where health.tenant <> ''))), []
    ) as tenants,
    coalesce(
        list_sort(
            list_distinct(
                list(health.namespace || '/' || health.pod_name)
                filter (where health.pod_name <> '')
            )
        ), []
    ) as pods
from hours as health
left join names
    on health.cluster_id = names.cluster_id
group by
    coalesce(names.cluster_name, health.cluster_id),
    health.node_name,
    health.device_uuid,
    health.gpu_index,
    health.instance_id,
    health.problem,
    health.component
order by
    first_hour_started_at asc,
    cluster_name asc,
    health.node_name asc,
    device asc,
    health.gpu_index asc,
    health.instance_id asc,
    health.problem asc,
    health.component asc
