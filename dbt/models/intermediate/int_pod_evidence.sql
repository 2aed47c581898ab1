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

reported_times as (

    select * from {{ ref('int_pod_reported_times') }}

),

lifecycle_times as (

    select
        lifecycles.cluster_id,
        lifecycles.pod_uid,
        windows.window_number,
        greatest(lifecycles.started_second, windows.window_started_second) as started_second,
        greatest(lifecycles.started_after_second, windows.window_started_second)
            as started_after_second,
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

sample_times as (

    select
        cluster_id,
        pod_uid,
        window_number,
        min(first_sampled_second) as first_sampled_second,
        max(last_sampled_second) as last_sampled_second
    from {{ ref('int_allocations_from_samples') }}
    group by cluster_id, pod_uid, window_number

),

both_times as (

    select
        coalesce(lifecycle_times.cluster_id, sample_times.cluster_id) as cluster_id,
        coalesce(lifecycle_times.pod_uid, sample_times.pod_uid) as pod_uid,
        coalesce(lifecycle_times.window_number, sample_times.window_number) as window_number,
        lifecycle_times.started_second,
        lifecycle_times.started_after_second,
        greatest(lifecycle_times.known_until_second, lifecycle_times.started_second)
            as known_until_second,
        lifecycle_times.ended_by_second,
        sample_times.first_sampled_second,
        sample_times.last_sampled_second
    from lifecycle_times
    full outer join sample_times
        on
            lifecycle_times.cluster_id = sample_times.cluster_id
            and lifecycle_times.pod_uid = sample_times.pod_uid
            and lifecycle_times.window_number = sample_times.window_number

),

sampled_intervals as (

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

-- The allocation starts between the last scrape without the pod and the first scrape with it, and
-- ends between the last scrape with it and the next scrape without it. A gap of the samples makes
-- both intervals longer, and so does a difference between the times of its requests and of its
-- phases.
evidence_bounds as (

    select
        both_times.*,
        windows.window_started_second,
        windows.window_ended_second,
        windows.expects_samples,
        windows.expects_journal,
        windows.sample_interval_seconds,
        windows.sample_delay_seconds,
        windows.agreement_seconds,
        case
            when reported_times.completed_second >= both_times.last_sampled_second
                then reported_times.completed_second
            else both_times.last_sampled_second
        end as ended_by_samples_second,
        least(
            coalesce(reported_times.container_started_second, both_times.first_sampled_second),
            both_times.first_sampled_second
        ) as started_by_samples_second,
        case
            when first_time.started_second >= both_times.first_sampled_second
                then
                    coalesce(
                        first_time.gap_before_started_second - windows.sample_interval_seconds,
                        windows.window_started_second
                    )
            else
                both_times.first_sampled_second
                - windows.sample_interval_seconds
                - windows.sample_delay_seconds
        end
        - coalesce(reported_times.first_apart_seconds, 0) as absent_until_second,
        case
            when reported_times.completed_second >= both_times.last_sampled_second
                then reported_times.completed_second
            when mass_endings.window_number is not null then windows.window_ended_second
            when
                last_time.ended_second
                <= both_times.last_sampled_second + windows.sample_interval_seconds
                then coalesce(last_time.gap_after_ended_second + 1, windows.window_ended_second)
            else
                both_times.last_sampled_second
                + windows.sample_interval_seconds
                + windows.sample_delay_seconds
                + 1
        end
        + case
            when reported_times.completed_second >= both_times.last_sampled_second then 0
            else coalesce(reported_times.last_apart_seconds, 0)
        end as absent_from_second
    from both_times
    inner join windows
        on both_times.window_number = windows.window_number
    left join sampled_intervals as first_time
        on
            both_times.window_number = first_time.window_number
            and first_time.started_second <= both_times.first_sampled_second
            and both_times.first_sampled_second < first_time.ended_second
    left join sampled_intervals as last_time
        on
            both_times.window_number = last_time.window_number
            and last_time.started_second <= both_times.last_sampled_second
            and both_times.last_sampled_second < last_time.ended_second
    left join mass_endings
        on
            both_times.window_number = mass_endings.window_number
            and both_times.last_sampled_second = mass_endings.last_sampled_second
    left join reported_times
        on
            both_times.cluster_id = reported_times.cluster_id
            and both_times.pod_uid = reported_times.pod_uid

),

-- A time that the pod itself reports has precedence over the time of a sample.
clipped_bounds as (

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
    from evidence_bounds

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
        when first_sampled_second < started_second - {{ clock_tolerance_seconds() }} then 0
        else greatest(started_second - greatest(started_after_second, absent_until_second), 0)
    end as start_uncertainty_seconds,
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
from clipped_bounds
