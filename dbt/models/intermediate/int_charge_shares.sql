with

-- All pieces of a charge that are equally long have the same share of it.
lengths as (

    select
        charge_number,
        billable_seconds * device_count as device_seconds,
        count(*) as piece_count
    from {{ ref('int_allocations_split_to_hours') }}
    group by charge_number, billable_seconds * device_count

),

charges as (

    select * from {{ ref('int_charges') }}

),

shares as (

    select
        lengths.charge_number,
        lengths.device_seconds,
        lengths.piece_count,
        charges.cost_nanos,
        {{ whole_quotient(
            exact('charges.cost_nanos') ~ ' * ' ~ exact('lengths.device_seconds'),
            exact('greatest(charges.device_seconds, 1)')
        ) }} as whole_nanos,
        cast(
            ({{ exact('charges.cost_nanos') }} * {{ exact('lengths.device_seconds') }})
            % {{ exact('greatest(charges.device_seconds, 1)') }}
            as bigint
        ) as remainder
    from lengths
    inner join charges
        on lengths.charge_number = charges.charge_number

),

left_over as (

    select
        charge_number,
        max(cost_nanos) - sum(whole_nanos * piece_count) as left_nanos
    from shares
    group by charge_number

),

remainders as (

    select
        charge_number,
        remainder,
        sum(piece_count) as equal_count
    from shares
    group by charge_number, remainder

),

ranked as (

    select
        *,
        sum(equal_count) over (
            partition by charge_number
            order by remainder desc
            rows between unbounded preceding and current row
        ) - equal_count as larger_count
    from remainders

)

select
    shares.charge_number,
    shares.device_seconds,
    shares.whole_nanos,
    shares.remainder,
    ranked.equal_count,
    greatest(
        least(left_over.left_nanos - ranked.larger_count, ranked.equal_count), 0
    ) as raised_count
from shares
inner join ranked
    on
        shares.charge_number = ranked.charge_number
        and shares.remainder = ranked.remainder
inner join left_over
    on shares.charge_number = left_over.charge_number
