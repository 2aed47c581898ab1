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

    select started_second from hours
    union
    select cut_second as started_second from cut_points

),

-- An hour is one segment, or more where something that people decide changes inside it.
segments as (

    select
        {{ whole_quotient('starts.started_second', 3600) }} * 3600 as hour_second,
        starts.started_second,
        coalesce(
            lead(starts.started_second) over (order by starts.started_second),
            parameters.period_ended_second
        ) as ended_second
    from starts
    cross join parameters

)

select * from segments
