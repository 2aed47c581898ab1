with

-- Numbers compare faster than names. The number of a pod is valid in this model only.
running_intervals as (

    select
        *,
        dense_rank() over (order by cluster_id, pod_uid) as pod_number
    from {{ ref('int_running_intervals_from_samples') }}

),

neighbours as (

    select
        *,
        lead(first_sampled_ms) over (
            partition by pod_number order by first_sampled_ms, last_sampled_ms
        ) as next_sampled_ms
    from running_intervals

),

reported_times as (

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
    from running_intervals
    group by pod_number, cluster_id, pod_uid

),

-- Pods with all samples outside the window and a reported time inside it: the pod ran until the end
-- of the window, or from its start.
reported_instants as (

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
    inner join reported_times
        on
            pods.cluster_id = reported_times.cluster_id
            and pods.pod_uid = reported_times.pod_uid
    inner join windows
        on
            pods.cluster_id = windows.cluster_id
            and not windows.expects_journal
            and (
                (
                    pods.first_sampled_ms >= windows.window_ended_second * 1000
                    and reported_times.container_started_second >= windows.window_started_second
                    and reported_times.container_started_second < windows.window_ended_second
                )
                or (
                    pods.last_sampled_ms < windows.window_started_second * 1000
                    and reported_times.completed_second > windows.window_started_second
                    and reported_times.completed_second <= windows.window_ended_second
                )
            )

),

-- A sample exactly at the end of a window belongs to the next window. Two neighbouring samples on
-- both sides of the end prove the time up to the end.
measured_intervals as (

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
    from reported_instants

),

intervals as (

    {{ joined_intervals(
        'measured_intervals',
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
