-- Charged and credited use of each pod.
select
    tenant,
    belongs_to,
    gpu_class,
    mig_profile,
    cluster_id,
    weight_numerator,
    weight_denominator,
    weight_policy,
    rate_id,
    charge_started_at,
    credited,
    pod_uid,
    pod_name,
    node_name,
    resource,
    workload_kind,
    workload_name,
    method,
    device_count,
    min(first_started_at) as first_started_at,
    max(last_ended_at) as last_ended_at,
    cast(sum(device_seconds) as bigint) as device_seconds,
    cast(sum(uncertain_device_seconds) as bigint) as uncertain_device_seconds,
    cast(sum(cost_nanos) as decimal(38, 0)) as cost_nanos
from charged_use
where billing_period = $period
group by all
order by all
