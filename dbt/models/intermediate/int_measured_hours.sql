with

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

segments as (

    select distinct hour_second
    from {{ ref('int_segments') }}

),

measured_hours as (

    select
        windows.cluster_id,
        segments.hour_second,
        min(greatest(windows.window_started_second, segments.hour_second))
            as measured_from_second,
        max(least(windows.window_ended_second, segments.hour_second + 3600))
            as measured_until_second
    from windows
    inner join segments
        on
            segments.hour_second < windows.window_ended_second
            and windows.window_started_second < segments.hour_second + 3600
    group by windows.cluster_id, segments.hour_second

)

select * from measured_hours
