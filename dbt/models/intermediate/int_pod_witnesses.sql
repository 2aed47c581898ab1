with

lives as (

    select *
    from {{ ref('int_allocations_from_lifecycle') }}
    where started_second is not null

),

islands as (

    select
        pod_number,
        window_number,
        min(first_sampled_second) as first_sampled_second,
        max(last_sampled_second) as last_sampled_second
    from {{ ref('int_allocations_from_samples') }}
    group by pod_number, window_number

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

lived as (

    select
        lives.pod_number,
        windows.window_number,
        greatest(lives.started_second, windows.window_started_second) as started_second,
        least(lives.known_until_second, windows.window_ended_second) as known_until_second,
        least(lives.ended_by_second, windows.window_ended_second) as ended_by_second
    from lives
    inner join windows
        on
            lives.cluster_id = windows.cluster_id
            and windows.expects_journal
            and lives.started_second < windows.window_ended_second
            and lives.ended_by_second > windows.window_started_second

),

paired as (

    select
        coalesce(lived.pod_number, islands.pod_number) as pod_number,
        coalesce(lived.window_number, islands.window_number) as window_number,
        lived.started_second,
        greatest(lived.known_until_second, lived.started_second) as known_until_second,
        lived.ended_by_second,
        islands.first_sampled_second,
        islands.last_sampled_second
    from lived
    full outer join islands
        on
            lived.pod_number = islands.pod_number
            and lived.window_number = islands.window_number

)

select
    paired.*,
    least(
        greatest(paired.first_sampled_second, paired.started_second), paired.known_until_second
    ) as first_inside_second,
    least(greatest(paired.last_sampled_second, paired.started_second), paired.known_until_second)
        as last_inside_second,
    windows.window_started_second,
    windows.window_ended_second,
    windows.expects_samples,
    windows.expects_journal,
    windows.sample_interval_seconds,
    windows.sample_delay_seconds,
    windows.agreement_seconds
from paired
inner join windows
    on paired.window_number = windows.window_number
