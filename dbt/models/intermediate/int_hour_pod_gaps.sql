with

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

segments as (

    select distinct hour_second
    from {{ ref('int_segments') }}

),

-- Time in which a metric that shows pods is missing of the whole cluster is a gap of its own.
changes as (

    select
        window_number,
        window_started_second as changed_second,
        0 as gap_change
    from windows
    union all
    select
        window_number,
        started_second as changed_second,
        1 as gap_change
    from {{ ref('int_sample_gaps') }}
    where metric in ('', 'kube_pod_container_resource_requests', 'kube_pod_status_phase')
    union all
    select
        window_number,
        ended_second as changed_second,
        -1 as gap_change
    from {{ ref('int_sample_gaps') }}
    where metric in ('', 'kube_pod_container_resource_requests', 'kube_pod_status_phase')

),

changed as (

    select
        window_number,
        changed_second,
        sum(gap_change) as gap_change
    from changes
    group by window_number, changed_second

),

levels as (

    select
        window_number,
        changed_second as started_second,
        lead(changed_second) over so_far as ended_second,
        sum(gap_change) over so_far as gap_count
    from changed
    window so_far as (partition by window_number order by changed_second)

),

sampled as (

    select
        levels.window_number,
        levels.started_second,
        coalesce(levels.ended_second, windows.window_ended_second) as ended_second
    from levels
    inner join windows
        on levels.window_number = windows.window_number
    where levels.gap_count = 0

),

neighbours as (

    select
        window_number,
        last_sampled_second,
        lead(first_sampled_second) over (
            partition by cluster_id, pod_uid, window_number order by first_sampled_second
        ) as next_sampled_second
    from {{ ref('int_allocations_from_samples') }}

),

-- Samples were due an interval after the last one, and every interval after that.
gaps as (

    select
        neighbours.window_number,
        neighbours.last_sampled_second + windows.sample_interval_seconds as first_due_second,
        neighbours.next_sampled_second as ended_second,
        windows.sample_interval_seconds,
        {{ whole_quotient(
            '2 * (neighbours.next_sampled_second - neighbours.last_sampled_second)'
            ~ ' + windows.sample_interval_seconds',
            '2 * windows.sample_interval_seconds'
        ) }} - 1 as due_count
    from neighbours
    inner join windows
        on neighbours.window_number = windows.window_number
    where neighbours.next_sampled_second is not null

),

parts as (

    select
        gaps.window_number,
        gaps.first_due_second,
        gaps.sample_interval_seconds,
        gaps.due_count,
        segments.hour_second,
        greatest(gaps.first_due_second, sampled.started_second, segments.hour_second)
            as started_second,
        least(gaps.ended_second, sampled.ended_second, segments.hour_second + 3600)
            as ended_second
    from gaps
    inner join sampled
        on
            gaps.window_number = sampled.window_number
            and gaps.first_due_second < sampled.ended_second
            and sampled.started_second < gaps.ended_second
    inner join segments
        on
            gaps.first_due_second < segments.hour_second + 3600
            and segments.hour_second < gaps.ended_second
            and sampled.started_second < segments.hour_second + 3600
            and segments.hour_second < sampled.ended_second

),

by_hour as (

    select
        window_number,
        hour_second,
        sum(
            least(
                {{ whole_quotient(
                    'ended_second - first_due_second + sample_interval_seconds - 1',
                    'sample_interval_seconds'
                ) }},
                due_count
            )
            - least(
                {{ whole_quotient(
                    'started_second - first_due_second + sample_interval_seconds - 1',
                    'sample_interval_seconds'
                ) }},
                due_count
            )
        ) as missing_count
    from parts
    where started_second < ended_second
    group by window_number, hour_second

)

select *
from by_hour
where missing_count > 0
