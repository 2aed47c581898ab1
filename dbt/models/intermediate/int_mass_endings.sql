with

intervals as (

    select * from {{ ref('int_allocations_from_samples') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

sampling_intervals as (

    select *
    from {{ ref('int_sampling_intervals') }}
    where not is_gap

),

attempts as (

    select
        cluster_id,
        hour_second,
        count(*) as complete_count
    from {{ ref('stg_landing__attempts') }}
    where source = 'thanos' and outcome = 'ok'
    group by cluster_id, hour_second

),

pod_ends as (

    select
        pod_uid,
        window_number,
        max(last_sampled_second) as last_sampled_second
    from intervals
    group by pod_uid, window_number

),

endings as (

    select
        window_number,
        last_sampled_second,
        count(*) as ended_count
    from pod_ends
    group by window_number, last_sampled_second
    having count(*) >= {{ least_mass_ending() }}

),

-- The number of pods at an instant: pods that began until then, minus pods that ended before.
instants as (

    select
        window_number,
        sampled_second,
        sum(begun_count) as begun_count,
        sum(ended_count) as ended_count
    from (
        select
            window_number,
            first_sampled_second as sampled_second,
            1 as begun_count,
            0 as ended_count
        from intervals
        union all
        select
            window_number,
            last_sampled_second as sampled_second,
            0 as begun_count,
            1 as ended_count
        from intervals
    ) as turns
    group by window_number, sampled_second

),

pod_counts as (

    select
        window_number,
        sampled_second,
        sum(begun_count - ended_count) over so_far + ended_count as alive_count
    from instants
    window
        so_far as (
            partition by window_number
            order by sampled_second
            rows between unbounded preceding and current row
        )

),

-- Later samples do not have these pods, and the hour was queried only once: a store may have been
-- absent.
mass_endings as (

    select
        endings.window_number,
        endings.last_sampled_second,
        endings.ended_count,
        cast(pod_counts.alive_count as bigint) as alive_count
    from endings
    inner join pod_counts
        on
            endings.window_number = pod_counts.window_number
            and endings.last_sampled_second = pod_counts.sampled_second
    inner join windows
        on endings.window_number = windows.window_number
    inner join sampling_intervals
        on
            endings.window_number = sampling_intervals.window_number
            and endings.last_sampled_second + windows.sample_interval_seconds
            >= sampling_intervals.started_second
            and endings.last_sampled_second + windows.sample_interval_seconds
            < sampling_intervals.ended_second
    left join attempts
        on
            windows.cluster_id = attempts.cluster_id
            and {{ whole_quotient(
                '(endings.last_sampled_second + windows.sample_interval_seconds)', 3600
            ) }} * 3600 = attempts.hour_second
    where
        {{ mass_ending_divisor() }} * endings.ended_count >= pod_counts.alive_count
        and coalesce(attempts.complete_count, 0) < 2
        and endings.last_sampled_second + 2 * windows.sample_interval_seconds
        <= windows.window_ended_second

)

select * from mass_endings
