with

lives as (

    select * from {{ ref('int_allocations_from_lifecycle') }}

),

islands as (

    select
        cluster_id,
        pod_uid,
        window_started_second,
        min(first_sampled_second) as first_sampled_second,
        max(last_sampled_second) as last_sampled_second,
        count(*) as island_count
    from {{ ref('int_allocations_from_samples') }}
    group by cluster_id, pod_uid, window_started_second

),

-- What was never asked is not due: an open period ends, for now, with its last attempt.
horizons as (

    select
        cluster_id,
        max(hour_second) + 3600 as asked_until_second
    from {{ ref('stg_landing__attempts') }}
    group by cluster_id

),

windows as (

    select
        windows.*,
        least(windows.window_ended_second, horizons.asked_until_second) as due_until_second
    from {{ ref('int_cluster_windows') }} as windows
    inner join horizons
        on windows.cluster_id = horizons.cluster_id

),

lived as (

    select
        windows.cluster_id,
        lives.pod_uid,
        windows.window_started_second,
        greatest(lives.started_second, windows.window_started_second) as started_second,
        least(lives.known_until_second, windows.due_until_second) as known_until_second,
        least(lives.ended_by_second, windows.due_until_second) as ended_by_second
    from windows
    inner join lives
        on
            windows.cluster_id = lives.cluster_id
            and windows.expects_journal
            and lives.started_second < windows.due_until_second
            and lives.ended_by_second > windows.window_started_second

),

paired as (

    select
        coalesce(lived.cluster_id, islands.cluster_id) as cluster_id,
        coalesce(lived.pod_uid, islands.pod_uid) as pod_uid,
        coalesce(lived.window_started_second, islands.window_started_second)
            as window_started_second,
        lived.started_second,
        greatest(lived.known_until_second, lived.started_second) as known_until_second,
        lived.ended_by_second,
        islands.first_sampled_second,
        islands.last_sampled_second,
        islands.island_count
    from lived
    full outer join islands
        on
            lived.cluster_id = islands.cluster_id
            and lived.pod_uid = islands.pod_uid
            and lived.window_started_second = islands.window_started_second

)

select
    paired.*,
    windows.window_ended_second,
    windows.expects_samples,
    windows.expects_journal,
    windows.sample_interval_seconds,
    windows.scrape_interval_seconds,
    windows.agreement_seconds
from paired
inner join windows
    on
        paired.cluster_id = windows.cluster_id
        and paired.window_started_second = windows.window_started_second
