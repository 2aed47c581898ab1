with

pod_hours as (

    select *
    from {{ ref('fct_pod_hours') }}
    where is_outage and billable_seconds > 0

),

outages as (

    select * from {{ ref('stg_decisions__outages') }}

),

-- Segments are cut where an outage begins and ends, and outages that overlap are one.
-- A credit is the cost of its pod-hours, so it never exceeds the credited charge.
credits as (

    select
        pod_hours.billing_period,
        pod_hours.tenant,
        pod_hours.belongs_to,
        pod_hours.cluster_id,
        pod_hours.gpu_class,
        pod_hours.mig_profile,
        pod_hours.weight_numerator,
        pod_hours.weight_denominator,
        pod_hours.weight_policy,
        pod_hours.rate_id,
        pod_hours.currency,
        {{ instant('outages.started_second') }} as outage_started_at,
        {{ instant('outages.ended_second') }} as outage_ended_at,
        outages.reason,
        min(pod_hours.segment_started_at) as credit_started_at,
        max(pod_hours.segment_ended_at) as credit_ended_at,
        cast(sum(pod_hours.billable_seconds * pod_hours.device_count) as bigint)
            as device_seconds,
        cast(-sum(pod_hours.cost_nanos) as decimal(38, 0)) as credit_nanos
    from pod_hours
    inner join outages
        on
            pod_hours.cluster_id = outages.cluster_id
            and {{ epoch_seconds('pod_hours.segment_started_at') }} >= outages.started_second
            and {{ epoch_seconds('pod_hours.segment_started_at') }} < outages.ended_second
    group by
        pod_hours.billing_period,
        pod_hours.tenant,
        pod_hours.belongs_to,
        pod_hours.cluster_id,
        pod_hours.gpu_class,
        pod_hours.mig_profile,
        pod_hours.weight_numerator,
        pod_hours.weight_denominator,
        pod_hours.weight_policy,
        pod_hours.rate_id,
        pod_hours.currency,
        outages.started_second,
        outages.ended_second,
        outages.reason

)

select * from credits
