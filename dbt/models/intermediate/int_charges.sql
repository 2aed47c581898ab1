with

pieces as (

    select
        charge_number,
        cast(sum(billable_seconds * device_count) as bigint) as device_seconds
    from {{ ref('int_allocations_split_to_epochs') }}
    group by charge_number

),

prices as (

    select distinct
        charge_number,
        cluster_id,
        namespace,
        belongs_to,
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
    from {{ ref('int_allocations_priced') }}

),

priced as (

    select
        prices.*,
        pieces.device_seconds,
        {{ price_nanos(
            'pieces.device_seconds',
            'prices.weight_numerator',
            'prices.weight_denominator',
            'prices.rate_nanos_per_hour'
        ) }} as cost_nanos
    from prices
    inner join pieces
        on prices.charge_number = pieces.charge_number

)

select * from priced
