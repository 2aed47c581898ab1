-- The charged and credited use of each pod and day; the statements of pods and of workload days sum
-- it.
create or replace temp table charged_use as
with

-- A rate may have several intervals, so the start of a pod hour decides its charge.
pod_charges as (

    select
        pod_hours.billing_period,
        pod_hours.tenant,
        pod_hours.belongs_to,
        pod_hours.gpu_class,
        pod_hours.mig_profile,
        pod_hours.cluster_id,
        pod_hours.weight_numerator,
        pod_hours.weight_denominator,
        pod_hours.weight_policy,
        pod_hours.rate_id,
        charges.charge_started_at,
        pod_hours.is_outage,
        cast(pod_hours.hour_started_at at time zone 'UTC' as date) as usage_day,
        pod_hours.pod_uid,
        pod_hours.pod_name,
        pod_hours.node_name,
        pod_hours.resource,
        pod_hours.workload_kind,
        pod_hours.workload_name,
        pod_hours.method,
        pod_hours.device_count,
        min(pod_hours.segment_started_at) as first_started_at,
        max(pod_hours.segment_ended_at) as last_ended_at,
        sum(pod_hours.billable_seconds * pod_hours.device_count) as device_seconds,
        sum(pod_hours.uncertainty_seconds * pod_hours.device_count) as uncertain_device_seconds,
        sum(pod_hours.cost_nanos) as cost_nanos
    from marts.fct_pod_hours as pod_hours
    inner join marts.fct_charges as charges
        on
            pod_hours.billing_period = charges.billing_period
            and pod_hours.tenant = charges.tenant
            and pod_hours.belongs_to = charges.belongs_to
            and pod_hours.gpu_class = charges.gpu_class
            and pod_hours.mig_profile = charges.mig_profile
            and pod_hours.cluster_id = charges.cluster_id
            and pod_hours.weight_numerator = charges.weight_numerator
            and pod_hours.weight_denominator = charges.weight_denominator
            and pod_hours.weight_policy = charges.weight_policy
            and pod_hours.rate_id = charges.rate_id
            and pod_hours.segment_started_at >= charges.charge_started_at
            and pod_hours.segment_started_at < charges.charge_ended_at
    where
        pod_hours.billing_period = $period
        and pod_hours.billable_seconds > 0
    group by all

),

-- A pod hour in an outage is charged like any other, and has a second, negative row as a credit.
signed_charges as (

    select
        *,
        false as credited,
        1 as sign
    from pod_charges
    union all
    select
        *,
        true as credited,
        -1 as sign
    from pod_charges
    where is_outage

)

select
    billing_period,
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
    sum(sign * device_seconds) as device_seconds,
    sum(greatest(sign, 0) * uncertain_device_seconds) as uncertain_device_seconds,
    cast(sum(sign * cost_nanos) as decimal(38, 0)) as cost_nanos
from signed_charges
group by all
