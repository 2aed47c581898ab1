with

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

segments as (

    select distinct hour_second
    from {{ ref('int_segments') }}

),

metric_holes as (

    select * from {{ ref('int_metric_holes') }}

),

unwatched as (

    select *
    from {{ ref('int_watch_stretches') }}
    where not is_watched

),

-- Samples were due at the start of a hole and every interval after it; the journal is counted in
-- seconds.
holes as (

    select
        metric_holes.window_number,
        'thanos' as source,
        metric_holes.metric,
        metric_holes.started_second,
        metric_holes.ended_second,
        windows.sample_interval_seconds as unit_seconds
    from metric_holes
    inner join windows
        on metric_holes.window_number = windows.window_number
    union all
    select
        windows.window_number,
        'kubernetes' as source,
        '' as metric,
        greatest(unwatched.started_second, windows.window_started_second) as started_second,
        least(unwatched.ended_second, windows.window_ended_second) as ended_second,
        cast(1 as bigint) as unit_seconds
    from unwatched
    inner join windows
        on
            unwatched.cluster_id = windows.cluster_id
            and windows.expects_journal
            and unwatched.started_second < windows.window_ended_second
            and windows.window_started_second < unwatched.ended_second

),

counted as (

    select
        *,
        {{ whole_quotient(
            '2 * (ended_second - started_second) + unit_seconds', '2 * unit_seconds'
        ) }} as due_count
    from holes

),

-- A missing sample is counted in the hour in which it was due, with no tolerance.
by_hour as (

    select
        counted.window_number,
        counted.source,
        counted.metric,
        segments.hour_second,
        sum(
            least(
                {{ whole_quotient(
                    'segments.hour_second + 3600 - counted.started_second + counted.unit_seconds - 1',
                    'counted.unit_seconds'
                ) }},
                counted.due_count
            )
            - least(
                {{ whole_quotient(
                    'greatest(segments.hour_second - counted.started_second, 0)'
                    ~ ' + counted.unit_seconds - 1',
                    'counted.unit_seconds'
                ) }},
                counted.due_count
            )
        ) as missing_count,
        max(
            least(counted.ended_second, segments.hour_second + 3600)
            - greatest(counted.started_second, segments.hour_second)
        ) as longest_hole_seconds
    from counted
    inner join segments
        on
            counted.started_second < segments.hour_second + 3600
            and segments.hour_second < counted.ended_second
    group by counted.window_number, counted.source, counted.metric, segments.hour_second

)

select * from by_hour
