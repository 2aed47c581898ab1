with

looked as (

    select * from {{ ref('int_sample_looks') }}

),

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples

),

reached as (

    select
        *,
        max(last_sampled_ms) over (
            partition by window_number, metric
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and 1 preceding
        ) as previous_sampled_ms
    from looked

),

-- A hole begins when the first of its missing samples was due.
holes as (

    select
        windows.window_number,
        windows.cluster_id,
        reached.metric,
        greatest(
            {{ whole_quotient('reached.previous_sampled_ms', 1000) }}
            + windows.sample_interval_seconds,
            windows.window_started_second
        ) as started_second,
        least(
            {{ whole_quotient('reached.first_sampled_ms', 1000) }}, windows.window_ended_second
        ) as ended_second
    from reached
    inner join windows
        on reached.window_number = windows.window_number
    where
        {{ is_hole(
            'reached.first_sampled_ms - reached.previous_sampled_ms',
            'windows.sample_interval_seconds'
        ) }}

)

select *
from holes
where started_second < ended_second
