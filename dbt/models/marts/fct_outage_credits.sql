with

pod_hours as (

    select *
    from {{ ref('fct_pod_hours') }}
    where is_outage and billable_seconds > 0

),

-- A credit is what its pod-hours cost, so it never exceeds the charge that it credits.
credits as (

    select
        billing_period,
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        rate_id,
        currency,
        min(segment_started_at) as credit_started_at,
        max(segment_ended_at) as credit_ended_at,
        cast(sum(billable_seconds * device_count) as bigint) as device_seconds,
        cast(-sum(cost_nanos) as decimal(38, 0)) as credit_nanos
    from pod_hours
    group by
        billing_period,
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        rate_id,
        currency

)

select * from credits
