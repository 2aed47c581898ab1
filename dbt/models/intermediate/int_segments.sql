with

parameters as (

    select * from {{ ref('stg_parameters') }}

),

cut_points as (

    select * from {{ ref('stg_decisions__cut_points') }}

),

hours as (

    select
        {{ each_hour('period_started_second', 'period_ended_second') }} as started_second
    from parameters

),

starts as (

    select
        started_second,
        max(is_cut) as is_cut
    from (
        select
            started_second,
            0 as is_cut
        from hours
        union all
        select
            cut_second as started_second,
            1 as is_cut
        from cut_points
    ) as edges
    group by started_second

),

-- An hour is one segment, or more where a decision changes inside it.
segments as (

    select
        row_number() over (order by starts.started_second) as segment_number,
        1 + sum(starts.is_cut) over (
            order by starts.started_second rows between unbounded preceding and current row
        ) as decision_set_number,
        {{ whole_quotient('starts.started_second', 3600) }} * 3600 as hour_second,
        starts.started_second,
        coalesce(
            lead(starts.started_second) over (order by starts.started_second),
            parameters.period_ended_second
        ) as ended_second
    from starts
    cross join parameters

)

select
    segment_number,
    cast(decision_set_number as bigint) as decision_set_number,
    hour_second,
    started_second,
    ended_second
from segments
