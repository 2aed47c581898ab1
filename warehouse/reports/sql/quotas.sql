-- The quotas with used and allocated devices, per tenant, cluster, resource and hour.
with

names as (

    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters
    group by all

)

select
    quotas.tenant,
    names.cluster_name,
    quotas.resource,
    quotas.hour_started_at,
    quotas.hard_count,
    quotas.used_count,
    quotas.allocated_count_max,
    quotas.hard_count - quotas.used_count as free_count
from fct_quotas as quotas
inner join names
    on quotas.cluster_id = names.cluster_id
where
    quotas.hour_started_at >= $started
    and quotas.hour_started_at < $ended
    and ($tenant = '' or quotas.tenant = $tenant)
order by all
