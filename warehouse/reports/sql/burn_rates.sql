-- The cost of the last complete hour and of the 24 hours until its end, per workload or pod with
-- such a cost. The columns of pods are NULL if workloads are requested.
select
    pods.tenant,
    case
        when list_contains($columns, 'cluster_name')
            then coalesce(names.cluster_name, pods.cluster_id)
    end as cluster_name,
    pods.workload_kind,
    pods.workload_name,
    case when list_contains($columns, 'pod_name') then pods.pod_name end as pod_name,
    case when list_contains($columns, 'pod_uid') then pods.pod_uid end as pod_uid,
    pods.currency,
    sum(pods.last_hour_cost_nanos) as last_hour_cost_nanos,
    sum(pods.last_day_cost_nanos) as last_day_cost_nanos
from pod_costs as pods
left join (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters
    group by all
) as names
    on pods.cluster_id = names.cluster_id
where
    pods.billing_period = $period
    and ($tenant = '' or pods.tenant = $tenant)
group by all
order by
    last_hour_cost_nanos desc,
    last_day_cost_nanos desc,
    pods.tenant asc,
    pods.workload_kind asc,
    pods.workload_name asc,
    cluster_name asc,
    pod_uid asc
