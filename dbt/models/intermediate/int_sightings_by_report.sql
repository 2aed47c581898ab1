with

sightings as (

    select
        pod_number,
        min(first_sampled_ms) as first_sampled_ms,
        max(last_sampled_ms) as last_sampled_ms
    from {{ ref('int_pod_sightings') }}
    group by pod_number

),

reported as (

    select * from {{ ref('int_pod_reported_times') }}

),

pods as (

    select * from {{ ref('int_pods') }}

),

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples and not expects_journal

),

-- All samples lie on the other side of an end of the window, and a time that they report on this
-- one: the pod ran up to that end, or from it on.
told as (

    select
        sightings.pod_number,
        windows.window_number,
        windows.sample_interval_seconds,
        case
            when sightings.first_sampled_ms >= windows.window_ended_second * 1000
                then windows.window_ended_second * 1000
            else windows.window_started_second * 1000
        end as sampled_ms
    from sightings
    inner join reported
        on sightings.pod_number = reported.pod_number
    inner join pods
        on sightings.pod_number = pods.pod_number
    inner join windows
        on
            pods.cluster_id = windows.cluster_id
            and (
                (
                    sightings.first_sampled_ms >= windows.window_ended_second * 1000
                    and reported.container_started_second >= windows.window_started_second
                    and reported.container_started_second < windows.window_ended_second
                )
                or (
                    sightings.last_sampled_ms < windows.window_started_second * 1000
                    and reported.completed_second > windows.window_started_second
                    and reported.completed_second <= windows.window_ended_second
                )
            )

)

select
    pod_number,
    window_number,
    sample_interval_seconds,
    sampled_ms as first_sampled_ms,
    sampled_ms as last_sampled_ms
from told
