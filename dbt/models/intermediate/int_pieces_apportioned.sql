-- noqa: disable=LT02
-- (jinja repeats parts of this model; its own indentation follows the loop)
with

-- Largest remainder, as `domain.money.apportion` has it: the pieces add up to the charge. Of those
-- with one remainder all get a nano more, or none; only where some do, their order decides.
{% for is_torn in [false, true] %}
    {{ 'torn' if is_torn else 'plain' }} as (

        select
            pieces.*,
            shares.whole_nanos,
            shares.raised_count,
            {% if is_torn %}
                row_number() over (
                    partition by shares.charge_number, shares.remainder
                    order by
                        pieces.allocation_number,
                        pieces.started_second,
                        pieces.ended_second,
                        pieces.allocation_state,
                        pieces.method_reason
                ) as remainder_rank
            {% else %}
                1 as remainder_rank
            {% endif %}
        from {{ ref('int_allocations_split_to_hours') }} as pieces
        inner join {{ ref('int_charge_shares') }} as shares
            on
                pieces.charge_number = shares.charge_number
                and pieces.billable_seconds * pieces.device_count = shares.device_seconds
        where
            {{ 'not' if not is_torn }}
            (shares.raised_count > 0 and shares.raised_count < shares.equal_count)

    ),
{% endfor %}

ranked as (

    select * from plain
    union all
    select * from torn

),

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
            whole_nanos + case when remainder_rank <= raised_count then 1 else 0 end
            as decimal(38, 0)
        ) as cost_nanos
    from ranked

)

select * from apportioned
