with

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

segments as (

    select distinct hour_second
    from {{ ref('int_segments') }}

),

attempts as (

    select * from {{ ref('stg_landing__attempts') }}

),

horizons as (

    select
        cluster_id,
        max(hour_second) + 3600 as asked_until_second
    from attempts
    group by cluster_id

),

-- What was never asked is not due: an open period ends, for now, with its last attempt.
measured as (

    select
        windows.cluster_id,
        segments.hour_second,
        min(greatest(windows.window_started_second, segments.hour_second))
            as measured_from_second,
        max(
            least(
                windows.window_ended_second,
                segments.hour_second + 3600,
                horizons.asked_until_second
            )
        ) as measured_until_second
    from windows
    inner join horizons
        on windows.cluster_id = horizons.cluster_id
    inner join segments
        on
            segments.hour_second < windows.window_ended_second
            and segments.hour_second < horizons.asked_until_second
            and windows.window_started_second < segments.hour_second + 3600
    group by windows.cluster_id, segments.hour_second

)

select * from measured
