with

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

sampling_intervals as (

    select * from {{ ref('int_sampling_intervals') }}

),

watch_intervals as (

    select * from {{ ref('int_watch_intervals') }}

),

-- A source that is not expected is missing all the time.
unsampled_intervals as (

    select
        windows.window_number,
        windows.cluster_id,
        coalesce(sampling_intervals.started_second, windows.window_started_second)
            as started_second,
        coalesce(sampling_intervals.ended_second, windows.window_ended_second) as ended_second
    from windows
    left join sampling_intervals
        on
            windows.window_number = sampling_intervals.window_number
            and sampling_intervals.is_gap
    where sampling_intervals.window_number is not null or not windows.expects_samples

),

unwatched_intervals as (

    select
        windows.window_number,
        greatest(
            coalesce(watch_intervals.started_second, 0), windows.window_started_second
        ) as started_second,
        least(
            coalesce(watch_intervals.ended_second, {{ end_of_time() }}), windows.window_ended_second
        ) as ended_second
    from windows
    left join watch_intervals
        on
            windows.expects_journal
            and windows.cluster_id = watch_intervals.cluster_id
            and not watch_intervals.is_watched
    where watch_intervals.cluster_id is not null or not windows.expects_journal

),

unmeasured_intervals as (

    select
        unsampled_intervals.window_number,
        unsampled_intervals.cluster_id,
        greatest(unsampled_intervals.started_second, unwatched_intervals.started_second)
            as started_second,
        least(unsampled_intervals.ended_second, unwatched_intervals.ended_second) as ended_second
    from unsampled_intervals
    inner join unwatched_intervals
        on
            unsampled_intervals.window_number = unwatched_intervals.window_number
            and unsampled_intervals.started_second < unwatched_intervals.ended_second
            and unwatched_intervals.started_second < unsampled_intervals.ended_second

)

select *
from unmeasured_intervals
where started_second < ended_second
