-- The labels that all pods of a workload have with the same value.
with

pods as (

    select distinct
        tenant,
        cluster_id,
        workload_kind,
        workload_name,
        pod_uid
    from marts.fct_pod_hours
    where billing_period = $period

),

counts as (

    select
        tenant,
        cluster_id,
        workload_kind,
        workload_name,
        count(*) as pod_count
    from pods
    group by all

)

select
    pods.tenant,
    pods.cluster_id,
    pods.workload_kind,
    pods.workload_name,
    labels.label_key,
    min(labels.label_value) as label_value
from pods
inner join counts
    on
        pods.tenant = counts.tenant
        and pods.cluster_id = counts.cluster_id
        and pods.workload_kind = counts.workload_kind
        and pods.workload_name = counts.workload_name
inner join marts.dim_pod_labels as labels
    on
        pods.cluster_id = labels.cluster_id
        and pods.pod_uid = labels.pod_uid
        and labels.billing_period = $period
group by
    pods.tenant,
    pods.cluster_id,
    pods.workload_kind,
    pods.workload_name,
    labels.label_key,
    counts.pod_count
having
    count(*) = counts.pod_count
    and min(labels.label_value) = max(labels.label_value)
order by all
