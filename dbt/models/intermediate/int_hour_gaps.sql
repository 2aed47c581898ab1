with

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

segments as (

    select distinct hour_second
    from {{ ref('int_segments') }}

),

sample_gaps as (

    select * from {{ ref('int_sample_gaps') }}

),

watch_gaps as (

    select *
    from {{ ref('int_watch_intervals') }}
    where not is_watched

),

-- In a gap of the samples, a sample was due at its start and after each sampling interval. The
-- journal is counted in seconds. An hour without a query is a gap of one hour.
gaps as (

    select
        sample_gaps.window_number,
        'thanos' as source,
        sample_gaps.metric,
        sample_gaps.started_second,
        sample_gaps.ended_second,
        windows.sample_interval_seconds as unit_seconds
    from sample_gaps
    inner join windows
        on sample_gaps.window_number = windows.window_number
    union all
    select
        windows.window_number,
        'kubernetes' as source,
        '' as metric,
        greatest(watch_gaps.started_second, windows.window_started_second) as started_second,
        least(watch_gaps.ended_second, windows.window_ended_second) as ended_second,
        cast(1 as bigint) as unit_seconds
    from watch_gaps
    inner join windows
        on
            watch_gaps.cluster_id = windows.cluster_id
            and windows.expects_journal
            and watch_gaps.started_second < windows.window_ended_second
            and windows.window_started_second < watch_gaps.ended_second
    union all
    select
        windows.window_number,
        sources.source,
        '' as metric,
        windows.window_ended_second as started_second,
        windows.expected_until_second as ended_second,
        case
            when sources.source = 'thanos' then windows.sample_interval_seconds
            else cast(1 as bigint)
        end as unit_seconds
    from windows
    cross join (values ('thanos'), ('kubernetes')) as sources (source)
    where windows.window_ended_second < windows.expected_until_second

),

counted_gaps as (

    select
        *,
        {{ whole_quotient(
            '2 * (ended_second - started_second) + unit_seconds', '2 * unit_seconds'
        ) }} as due_count
    from gaps

),

-- A missing sample is counted in the hour in which it was due.
hour_gaps as (

    select
        counted_gaps.window_number,
        counted_gaps.source,
        counted_gaps.metric,
        segments.hour_second,
        sum(
            least(
                {{ whole_quotient(
                    'segments.hour_second + 3600 - counted_gaps.started_second'
                    ~ ' + counted_gaps.unit_seconds - 1',
                    'counted_gaps.unit_seconds'
                ) }},
                counted_gaps.due_count
            )
            - least(
                {{ whole_quotient(
                    'greatest(segments.hour_second - counted_gaps.started_second, 0)'
                    ~ ' + counted_gaps.unit_seconds - 1',
                    'counted_gaps.unit_seconds'
                ) }},
                counted_gaps.due_count
            )
        ) as missing_count,
        max(
            least(counted_gaps.ended_second, segments.hour_second + 3600)
            - greatest(counted_gaps.started_second, segments.hour_second)
        ) as longest_gap_seconds
    from counted_gaps
    inner join segments
        on
            counted_gaps.started_second < segments.hour_second + 3600
            and segments.hour_second < counted_gaps.ended_second
    group by
        counted_gaps.window_number, counted_gaps.source, counted_gaps.metric, segments.hour_second

)

select * from hour_gaps
