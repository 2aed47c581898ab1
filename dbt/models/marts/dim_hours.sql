with

segments as (

    select * from {{ ref('int_segments') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

hours as (

    select
        parameters.billing_period,
        {{ instant('segments.hour_second') }} as hour_started_at,
        {{ instant('segments.hour_second + 3600') }} as hour_ended_at,
        count(*) as segment_count
    from segments
    cross join parameters
    group by parameters.billing_period, segments.hour_second

)

select * from hours
