with

charges as (

    select * from {{ ref('int_charges') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

billable_charges as (

    select
        parameters.billing_period,
        charges.namespace as tenant,
        charges.belongs_to,
        charges.cluster_id,
        charges.gpu_class,
        charges.mig_profile,
        cast(charges.weight_numerator as bigint) as weight_numerator,
        cast(charges.weight_denominator as bigint) as weight_denominator,
        charges.weight_policy,
        charges.rate_id,
        cast(charges.rate_nanos_per_hour as decimal(38, 0)) as rate_nanos_per_hour,
        charges.currency,
        {{ instant('charges.charge_started_second') }} as charge_started_at,
        {{ instant('charges.charge_ended_second') }} as charge_ended_at,
        charges.device_seconds,
        charges.cost_nanos
    from charges
    cross join parameters
    where charges.device_seconds > 0

)

select * from billable_charges
