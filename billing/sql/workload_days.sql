-- Charged and credited use of each workload and day.
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
    usage_day,
    workload_kind,
    workload_name,
    cast(sum(device_seconds) as bigint) as device_seconds,
    cast(sum(cost_nanos) as decimal(38, 0)) as cost_nanos
from charged_use
where billing_period = $period
group by all
order by all
