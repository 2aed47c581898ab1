-- The last complete hour of each tenant in each period, which is "now" in the portal. In a complete
-- hour, all sources of all clusters in which the tenant has a pod, a namespace or a quota are
-- complete or waived. The row of all clusters together has the tenant ''. Without a complete hour,
-- it is the last counted hour.
with

tenant_clusters as (

    select
        billing_period,
        tenant,
        cluster_id
    from fct_pod_hours
    where belongs_to = 'tenant'
    union
    select
        billing_period,
        namespace as tenant,
        cluster_id
    from dim_namespaces
    union
    select
        billing_period,
        tenant,
        cluster_id
    from fct_quotas
    union
    select
        billing_period,
        '' as tenant,
        cluster_id
    from fct_coverage

),

cluster_hours as (

    select
        coverage.billing_period,
        coverage.cluster_id,
        coverage.hour_started_at,
        bool_and(
            (coverage.outcome = 'ok' and coverage.missing_count = 0)
            or waived_hours.hour_started_at is not null
        ) as is_complete,
        bool_or(coverage.outcome <> 'not_asked') as is_counted
    from fct_coverage as coverage
    left join waived_hours
        on
            coverage.billing_period = waived_hours.billing_period
            and coverage.cluster_id = waived_hours.cluster_id
            and coverage.source = waived_hours.source
            and coverage.hour_started_at = waived_hours.hour_started_at
    group by all

),

tenant_hours as (

    select
        tenant_clusters.billing_period,
        tenant_clusters.tenant,
        cluster_hours.hour_started_at,
        bool_and(cluster_hours.is_complete) as is_complete,
        bool_or(cluster_hours.is_counted) as is_counted
    from tenant_clusters
    inner join cluster_hours
        on
            tenant_clusters.billing_period = cluster_hours.billing_period
            and tenant_clusters.cluster_id = cluster_hours.cluster_id
    group by all

)

select
    billing_period,
    tenant,
    coalesce(
        max(hour_started_at) filter (is_complete),
        max(hour_started_at) filter (is_counted)
    ) as hour_started_at
from tenant_hours
where is_counted
group by all
