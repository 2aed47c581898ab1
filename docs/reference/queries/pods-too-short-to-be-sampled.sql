-- Which pods were too short for samples?
--
-- Pods that ran for less than the sampling interval: only the journal has evidence of them.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: All pods ran for at least one sampling interval.
with intervals as (
    select
        cluster_id,
        max(sample_interval_seconds) as sample_interval_seconds
    from dim_clusters
    where billing_period = $period
    group by all
)

select
    pods.tenant,
    pods.pod_name,
    pods.node_name,
    pods.gpu_class,
    pods.mig_profile,
    pods.running_device_seconds // pods.device_count as running_seconds,
    pods.cost_nanos,
    pods.currency
from fct_pod_periods as pods
inner join intervals on pods.cluster_id = intervals.cluster_id
where
    pods.billing_period = $period
    and pods.running_device_seconds > 0
    and pods.running_device_seconds // pods.device_count < intervals.sample_interval_seconds
order by pods.tenant, pods.pod_name, pods.pod_uid
