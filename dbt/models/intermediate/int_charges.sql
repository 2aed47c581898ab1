with

pod_hours as (

    select * from {{ ref('int_pod_hours_priced') }}

),

summed as (

    select
        billing_period,
        namespace,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        rate_id,
        rate_nanos_per_hour,
        currency,
        charge_started_second,
        charge_ended_second,
        cast(sum(billable_seconds * device_count) as bigint) as device_seconds
    from pod_hours
    group by
        billing_period,
        namespace,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        rate_id,
        rate_nanos_per_hour,
        currency,
        charge_started_second,
        charge_ended_second

),

priced as (

    select
        *,
        {{ price_nanos(
            'device_seconds', 'weight_numerator', 'weight_denominator', 'rate_nanos_per_hour'
        ) }} as cost_nanos,
        row_number() over (
            order by
                namespace,
                belongs_to,
                cluster_id,
                gpu_class,
                mig_profile,
                weight_numerator,
                weight_denominator,
                weight_policy,
                rate_id,
                charge_started_second
        ) as charge_number
    from summed

)

select * from priced
