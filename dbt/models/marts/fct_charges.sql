with

charges as (

    select * from {{ ref('int_charges') }}

),

billable as (

    select
        billing_period,
        namespace as tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        cast(weight_numerator as bigint) as weight_numerator,
        cast(weight_denominator as bigint) as weight_denominator,
        weight_policy,
        rate_id,
        cast(rate_nanos_per_hour as decimal(38, 0)) as rate_nanos_per_hour,
        currency,
        {{ instant('charge_started_second') }} as charge_started_at,
        {{ instant('charge_ended_second') }} as charge_ended_at,
        device_seconds,
        cost_nanos
    from charges
    where device_seconds > 0

)

select * from billable
