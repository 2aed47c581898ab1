-- The cost of affected pods in hours with a new fault of the provider. The hour of a pod counts
-- once, also with several faults.
with

names as (

    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters
    group by all

),

pod_hours as (

    select
        cluster_id,
        tenant,
        currency,
        pod_uid,
        hour_started_at,
        list(problem) as problems,
        max(cost_nanos) as cost_nanos
    from fct_gpu_health
    where
        billing_period = $period
        and is_fault_of_provider
        and is_new
        and pod_uid <> ''
        and cost_nanos > 0
    group by all

)

select
    pod_hours.tenant,
    coalesce(names.cluster_name, pod_hours.cluster_id) as cluster_name,
    list_sort(list_distinct(flatten(list(pod_hours.problems)))) as reason,
    count(distinct pod_hours.hour_started_at) as hour_count,
    sum(pod_hours.cost_nanos) as credit_nanos,
    pod_hours.currency
from pod_hours
left join names
    on pod_hours.cluster_id = names.cluster_id
group by
    pod_hours.tenant,
    coalesce(names.cluster_name, pod_hours.cluster_id),
    pod_hours.currency
order by pod_hours.tenant, cluster_name, pod_hours.currency
