with

pieces as (

    select
        *,
        billable_seconds * device_count as device_seconds
    from {{ ref('int_allocations_split_to_hours') }}

),

charges as (

    select * from {{ ref('int_charges') }}

),

-- Every piece of a charge has the charge's weight and price, so its exact share of the cost is
-- its own device-seconds times both.
shares as (

    select
        pieces.*,
        charges.cost_nanos as charge_nanos,
        {{ whole_quotient(
            priced_numerator(
                'pieces.device_seconds', 'charges.weight_numerator', 'charges.rate_nanos_per_hour'
            ),
            priced_denominator('charges.weight_denominator')
        ) }} as whole_nanos,
        {{ priced_numerator(
            'pieces.device_seconds', 'charges.weight_numerator', 'charges.rate_nanos_per_hour'
        ) }} % {{ priced_denominator('charges.weight_denominator') }} as remainder
    from pieces
    inner join charges
        on pieces.charge_number = charges.charge_number

),

left_over as (

    select
        charge_number,
        max(charge_nanos) - sum(whole_nanos) as left_nanos
    from shares
    group by charge_number

),

ranked as (

    select
        shares.*,
        left_over.left_nanos,
        row_number() over (
            partition by shares.charge_number
            order by
                shares.remainder desc,
                shares.allocation_number asc,
                shares.started_second asc,
                shares.ended_second asc,
                shares.allocation_state asc,
                shares.method_reason asc
        ) as remainder_rank
    from shares
    inner join left_over
        on shares.charge_number = left_over.charge_number

),

-- Largest remainder: the pieces add up to the charge, each within one nano of its exact share.
apportioned as (

    select
        allocation_number,
        charge_number,
        hour_second,
        started_second,
        ended_second,
        allocation_state,
        method,
        method_reason,
        treatment,
        is_outage,
        is_in_lifecycle,
        is_sampled,
        counted_seconds,
        billable_seconds,
        uncertainty_seconds,
        cast(
            whole_nanos + case when remainder_rank <= left_nanos then 1 else 0 end
            as decimal(38, 0)
        ) as cost_nanos
    from ranked

)

select * from apportioned
