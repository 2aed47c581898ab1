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

-- A charge is shared out in proportion to device-seconds: all its pieces have one weight and price.
shares as (

    select
        pieces.*,
        charges.cost_nanos as charge_nanos,
        {{ whole_quotient(
            exact('charges.cost_nanos') ~ ' * ' ~ exact('pieces.device_seconds'),
            exact('greatest(charges.device_seconds, 1)')
        ) }} as whole_nanos,
        ({{ exact('charges.cost_nanos') }} * {{ exact('pieces.device_seconds') }})
        % {{ exact('greatest(charges.device_seconds, 1)') }} as remainder
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

-- Largest remainder, as `domain.money.apportion` has it: the pieces add up to the charge.
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
