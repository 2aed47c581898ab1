with

lifecycles as (

    select *
    from {{ ref('int_pods_from_journal') }}
    where started_second is not null

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

sampling_intervals as (

    select * from {{ ref('int_sampling_intervals') }}

),

mass_endings as (

    select * from {{ ref('int_mass_endings') }}

),

reported as (

    select * from {{ ref('int_pod_reported_times') }}

),

by_lifecycle as (

    select
        lifecycles.cluster_id,
        lifecycles.pod_uid,
        windows.window_number,
        greatest(lifecycles.started_second, windows.window_started_second) as started_second,
        least(lifecycles.known_until_second, windows.window_ended_second) as known_until_second,
        least(lifecycles.ended_by_second, windows.window_ended_second) as ended_by_second
    from lifecycles
    inner join windows
        on
            lifecycles.cluster_id = windows.cluster_id
            and windows.expects_journal
            and lifecycles.started_second < windows.window_ended_second
            and lifecycles.ended_by_second > windows.window_started_second

),

by_samples as (

    select
        cluster_id,
        pod_uid,
        window_number,
        min(first_sampled_second) as first_sampled_second,
        max(last_sampled_second) as last_sampled_second
    from {{ ref('int_allocations_from_samples') }}
    group by cluster_id, pod_uid, window_number

),

paired as (

    select
        coalesce(by_lifecycle.cluster_id, by_samples.cluster_id) as cluster_id,
        coalesce(by_lifecycle.pod_uid, by_samples.pod_uid) as pod_uid,
        coalesce(by_lifecycle.window_number, by_samples.window_number) as window_number,
        by_lifecycle.started_second,
        greatest(by_lifecycle.known_until_second, by_lifecycle.started_second)
            as known_until_second,
        by_lifecycle.ended_by_second,
        by_samples.first_sampled_second,
        by_samples.last_sampled_second
    from by_lifecycle
    full outer join by_samples
        on
            by_lifecycle.cluster_id = by_samples.cluster_id
            and by_lifecycle.pod_uid = by_samples.pod_uid
            and by_lifecycle.window_number = by_samples.window_number

),

sampled_time as (

    select *
    from (
        select
            *,
            lag(started_second) over (
                partition by window_number order by started_second
            ) as gap_before_started_second,
            lead(ended_second) over (
                partition by window_number order by started_second
            ) as gap_after_ended_second
        from sampling_intervals
    ) as neighbours
    where not is_gap

),

-- The allocation starts between the last scrape without the pod and the first one with it, and it
-- ends between the last one with it and the next one without. A gap of the samples widens both,
-- and so does a difference between the times of its requests and of its phases.
bounded as (

    select
        paired.*,
        windows.window_started_second,
        windows.window_ended_second,
        windows.expects_samples,
        windows.expects_journal,
        windows.sample_interval_seconds,
        windows.sample_delay_seconds,
        windows.agreement_seconds,
        case
            when reported.completed_second >= paired.last_sampled_second
                then reported.completed_second
            else paired.last_sampled_second
        end as ended_by_samples_second,
        least(
            coalesce(reported.container_started_second, paired.first_sampled_second),
            paired.first_sampled_second
        ) as started_by_samples_second,
        case
            when first_time.started_second >= paired.first_sampled_second
                then
                    coalesce(
                        first_time.gap_before_started_second - windows.sample_interval_seconds,
                        windows.window_started_second
                    )
            else
                paired.first_sampled_second
                - windows.sample_interval_seconds
                - windows.sample_delay_seconds
        end
        - coalesce(reported.first_apart_seconds, 0) as absent_until_second,
        case
            when reported.completed_second >= paired.last_sampled_second
                then reported.completed_second
            when mass_endings.window_number is not null then windows.window_ended_second
            when
                last_time.ended_second
                <= paired.last_sampled_second + windows.sample_interval_seconds
                then coalesce(last_time.gap_after_ended_second + 1, windows.window_ended_second)
            else
                paired.last_sampled_second
                + windows.sample_interval_seconds
                + windows.sample_delay_seconds
                + 1
        end
        + case
            when reported.completed_second >= paired.last_sampled_second then 0
            else coalesce(reported.last_apart_seconds, 0)
        end as absent_from_second
    from paired
    inner join windows
        on paired.window_number = windows.window_number
    left join sampled_time as first_time
        on
            paired.window_number = first_time.window_number
            and first_time.started_second <= paired.first_sampled_second
            and paired.first_sampled_second < first_time.ended_second
    left join sampled_time as last_time
        on
            paired.window_number = last_time.window_number
            and last_time.started_second <= paired.last_sampled_second
            and paired.last_sampled_second < last_time.ended_second
    left join mass_endings
        on
            paired.window_number = mass_endings.window_number
            and paired.last_sampled_second = mass_endings.last_sampled_second
    left join reported
        on
            paired.cluster_id = reported.cluster_id
            and paired.pod_uid = reported.pod_uid

),

-- A time that the pod itself reports is taken before that of a sample.
clipped as (

    select
        *,
        case
            when first_sampled_second is not null
                then greatest(started_by_samples_second, window_started_second)
        end as sampled_from_second,
        case
            when first_sampled_second is not null
                then least(ended_by_samples_second, window_ended_second)
        end as sampled_until_second
    from bounded

)

select
    cluster_id,
    pod_uid,
    window_number,
    started_second,
    known_until_second,
    ended_by_second,
    first_sampled_second,
    last_sampled_second,
    least(greatest(first_sampled_second, started_second), known_until_second)
        as first_inside_second,
    least(greatest(last_sampled_second, started_second), known_until_second)
        as last_inside_second,
    sampled_from_second,
    sampled_until_second,
    case
        when first_sampled_second is not null
            then
                greatest(
                    sampled_from_second - greatest(absent_until_second, window_started_second), 0
                )
    end as uncertainty_before_seconds,
    case
        when first_sampled_second is not null
            then
                greatest(least(absent_from_second, window_ended_second) - sampled_until_second, 0)
    end as uncertainty_after_seconds,
    window_started_second,
    window_ended_second,
    expects_samples,
    expects_journal,
    sample_interval_seconds,
    sample_delay_seconds,
    agreement_seconds
from clipped
