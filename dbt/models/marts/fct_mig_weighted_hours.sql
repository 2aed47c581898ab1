with

pod_hours as (

    select * from {{ ref('fct_pod_hours') }}

),

weighted_hours as (

    select
        billing_period,
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        hour_started_at,
        weight_policy,
        weight_numerator,
        weight_denominator,
        cast(sum(running_seconds * device_count) as bigint) as running_device_seconds,
        cast(sum(billable_seconds * device_count) as bigint) as billable_device_seconds,
        cast(sum(running_seconds * device_count * weight_numerator) as decimal(38, 0))
            as weighted_running_numerator,
        cast(sum(billable_seconds * device_count * weight_numerator) as decimal(38, 0))
            as weighted_billable_numerator
    from pod_hours
    group by
        billing_period,
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        hour_started_at,
        weight_policy,
        weight_numerator,
        weight_denominator

)

select * from weighted_hours
