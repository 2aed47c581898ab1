with

rates as (

    select * from {{ ref('stg_decisions__rates') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

valid_rates as (

    select
        parameters.billing_period,
        rates.rate_id,
        rates.cluster_id,
        rates.gpu_class,
        rates.mig_profile,
        rates.currency,
        rates.rate_nanos_per_hour,
        {{ instant('rates.valid_from_second') }} as valid_from,
        {{ instant('rates.valid_until_second') }} as valid_until,
        rates.rate_reason
    from rates
    cross join parameters
    where
        rates.valid_from_second < parameters.period_ended_second
        and rates.valid_until_second > parameters.period_started_second

)

select * from valid_rates
