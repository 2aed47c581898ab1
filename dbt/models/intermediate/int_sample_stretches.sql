with

runs as (

    select
        cluster_id,
        first_sampled_ms,
        max(last_sampled_ms) as last_sampled_ms
    from {{ ref('int_sample_runs') }}
    group by cluster_id, first_sampled_ms

),

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples

),

-- The look reaches one interval beyond the hours on both sides; a side without a neighbouring
-- sample takes that edge.
inside as (

    select
        windows.window_number,
        windows.window_started_second,
        windows.window_ended_second,
        windows.sample_interval_seconds,
        runs.first_sampled_ms,
        runs.last_sampled_ms
    from windows
    inner join runs
        on
            windows.cluster_id = runs.cluster_id
            and (windows.window_started_second - windows.sample_interval_seconds) * 1000
            <= runs.last_sampled_ms
            and runs.first_sampled_ms
            <= (windows.window_ended_second + windows.sample_interval_seconds) * 1000

),

edges as (

    select
        window_number,
        window_started_second,
        window_ended_second,
        sample_interval_seconds,
        (window_started_second - sample_interval_seconds) * 1000 as first_sampled_ms,
        (window_started_second - sample_interval_seconds) * 1000 as last_sampled_ms
    from windows
    union all
    select
        window_number,
        window_started_second,
        window_ended_second,
        sample_interval_seconds,
        (window_ended_second + sample_interval_seconds) * 1000 as first_sampled_ms,
        (window_ended_second + sample_interval_seconds) * 1000 as last_sampled_ms
    from windows

),

looked as (

    select * from inside
    union all
    select * from edges

),

reached as (

    select
        *,
        max(last_sampled_ms) over (
            partition by window_number
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and 1 preceding
        ) as previous_sampled_ms
    from looked

),

-- A hole begins when the first of its missing samples was due.
holes as (

    select
        window_number,
        window_started_second,
        window_ended_second,
        greatest(
            {{ whole_quotient('previous_sampled_ms', 1000) }} + sample_interval_seconds,
            window_started_second
        ) as started_second,
        least({{ whole_quotient('first_sampled_ms', 1000) }}, window_ended_second) as ended_second
    from reached
    where {{ is_hole('first_sampled_ms - previous_sampled_ms', 'sample_interval_seconds') }}

),

measured_holes as (

    select *
    from holes
    where started_second < ended_second

),

sampled_starts as (

    select
        window_number,
        window_started_second,
        window_ended_second,
        window_started_second as started_second
    from windows
    union all
    select
        window_number,
        window_started_second,
        window_ended_second,
        ended_second as started_second
    from measured_holes

),

stretch_starts as (

    select
        window_number,
        window_started_second,
        window_ended_second,
        started_second,
        max(is_hole) as is_hole
    from (
        select
            window_number,
            window_started_second,
            window_ended_second,
            started_second,
            0 as is_hole
        from sampled_starts
        union all
        select
            window_number,
            window_started_second,
            window_ended_second,
            started_second,
            1 as is_hole
        from measured_holes
    ) as starts
    group by window_number, window_started_second, window_ended_second, started_second

),

tiled as (

    select
        window_number,
        started_second,
        coalesce(
            lead(started_second) over (
                partition by window_number order by started_second
            ),
            window_ended_second
        ) as ended_second,
        is_hole = 1 as is_hole
    from stretch_starts

)

select *
from tiled
where started_second < ended_second
