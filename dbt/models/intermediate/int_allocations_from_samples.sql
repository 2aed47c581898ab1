with

-- A number compares faster than a name: it numbers pods within this model only.
sightings as (

    select
        *,
        dense_rank() over (order by cluster_id, pod_uid) as pod_number
    from {{ ref('int_pod_sightings') }}

),

neighbours as (

    select
        *,
        lead(first_sampled_ms) over (
            partition by pod_number order by first_sampled_ms, last_sampled_ms
        ) as next_sampled_ms
    from sightings

),

reported as (

    select * from {{ ref('int_pod_reported_times') }}

),

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples

),

pods as (

    select
        pod_number,
        cluster_id,
        pod_uid,
        min(first_sampled_ms) as first_sampled_ms,
        max(last_sampled_ms) as last_sampled_ms
    from sightings
    group by pod_number, cluster_id, pod_uid

),

-- All samples lie beyond an end of the window, and report a time inside it: the pod ran up to that
-- end, or from it on.
by_report as (

    select
        pods.pod_number,
        windows.window_number,
        windows.sample_interval_seconds,
        case
            when pods.first_sampled_ms >= windows.window_ended_second * 1000
                then windows.window_ended_second * 1000
            else windows.window_started_second * 1000
        end as sampled_ms
    from pods
    inner join reported
        on
            pods.cluster_id = reported.cluster_id
            and pods.pod_uid = reported.pod_uid
    inner join windows
        on
            pods.cluster_id = windows.cluster_id
            and not windows.expects_journal
            and (
                (
                    pods.first_sampled_ms >= windows.window_ended_second * 1000
                    and reported.container_started_second >= windows.window_started_second
                    and reported.container_started_second < windows.window_ended_second
                )
                or (
                    pods.last_sampled_ms < windows.window_started_second * 1000
                    and reported.completed_second > windows.window_started_second
                    and reported.completed_second <= windows.window_ended_second
                )
            )

),

-- A sample at the very end of a window belongs to the next window. Of two neighbours with that
-- end between them, both prove the time up to it.
measured as (

    select
        neighbours.pod_number,
        windows.window_number,
        windows.sample_interval_seconds,
        greatest(neighbours.first_sampled_ms, windows.window_started_second * 1000)
            as first_sampled_ms,
        case
            when
                neighbours.next_sampled_ms >= windows.window_ended_second * 1000
                and not {{ is_gap(
                    'neighbours.next_sampled_ms - neighbours.last_sampled_ms',
                    'windows.sample_interval_seconds'
                ) }}
                then windows.window_ended_second * 1000
            else least(neighbours.last_sampled_ms, windows.window_ended_second * 1000)
        end as last_sampled_ms
    from neighbours
    inner join windows
        on
            neighbours.cluster_id = windows.cluster_id
            and neighbours.first_sampled_ms < windows.window_ended_second * 1000
            and neighbours.last_sampled_ms >= windows.window_started_second * 1000
    union all
    select
        pod_number,
        window_number,
        sample_interval_seconds,
        sampled_ms as first_sampled_ms,
        sampled_ms as last_sampled_ms
    from by_report

),

intervals as (

    {{ joined_intervals(
        'measured',
        ['pod_number', 'window_number', 'sample_interval_seconds'],
        'first_sampled_ms',
        'last_sampled_ms',
        is_gap('first_sampled_ms - reached', 'sample_interval_seconds')
    ) }}

)

select
    pods.cluster_id,
    pods.pod_uid,
    intervals.window_number,
    {{ whole_quotient('intervals.first_sampled_ms', 1000) }} as first_sampled_second,
    {{ whole_quotient('intervals.last_sampled_ms', 1000) }} as last_sampled_second
from intervals
inner join pods
    on intervals.pod_number = pods.pod_number
