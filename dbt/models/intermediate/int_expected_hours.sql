with

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

segments as (

    select distinct hour_second
    from {{ ref('int_segments') }}

),

window_hours as (

    select
        windows.window_number,
        windows.cluster_id,
        segments.hour_second,
        windows.expects_samples,
        windows.expects_journal,
        windows.sample_interval_seconds,
        least(segments.hour_second + 3600, windows.expected_until_second)
        - greatest(segments.hour_second, windows.window_started_second) as expected_seconds
    from windows
    inner join segments
        on
            segments.hour_second + 3600 > windows.window_started_second
            and segments.hour_second < windows.expected_until_second

),

-- The expected number of each source and hour: samples, or seconds of the watch.
expected_hours as (

    select
        window_number,
        cluster_id,
        'thanos' as source,
        hour_second,
        {{ whole_quotient(
            'expected_seconds + sample_interval_seconds - 1', 'sample_interval_seconds'
        ) }} as expected_count
    from window_hours
    where expects_samples
    union all
    select
        window_number,
        cluster_id,
        'kubernetes' as source,
        hour_second,
        expected_seconds as expected_count
    from window_hours
    where expects_journal

)

select * from expected_hours
