with

-- Numbers compare faster than names. The number of a cluster is valid in this model only. The
-- shortest sampling interval of a cluster's windows decides what a gap is.
clusters as (

    select
        attempts.cluster_id,
        row_number() over (order by attempts.cluster_id) as cluster_number,
        coalesce(min(windows.sample_interval_seconds), 0) as sample_interval_seconds
    from {{ ref('int_attempts_used') }} as attempts
    left join {{ ref('int_cluster_windows') }} as windows
        on attempts.cluster_id = windows.cluster_id
    where attempts.source = 'thanos'
    group by attempts.cluster_id

),

runs as (

    select
        clusters.cluster_number,
        runs.series_key,
        runs.metric,
        runs.sample_quantity,
        runs.first_sampled_ms,
        runs.last_sampled_ms
    from {{ ref('int_sample_runs') }} as runs
    inner join clusters
        on runs.cluster_id = clusters.cluster_id
    where runs.metric like 'kube_pod_%'

),

-- The last sample before each run, and the last sample of all runs, in one order.
ordered_runs as (

    select
        *,
        max(last_sampled_ms) over (
            partition by series_key, cluster_number, sample_quantity
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and 1 preceding
        ) as previous_sampled_ms,
        max(last_sampled_ms) over (
            partition by series_key, cluster_number, sample_quantity
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and unbounded following
        ) as final_sampled_ms
    from runs

),

-- The first run of each joined run.
first_runs as (

    select
        clusters.cluster_id,
        ordered_runs.*
    from ordered_runs
    inner join clusters
        on ordered_runs.cluster_number = clusters.cluster_number
    where
        ordered_runs.previous_sampled_ms is null
        or {{ is_gap(
            'ordered_runs.first_sampled_ms - ordered_runs.previous_sampled_ms',
            'clusters.sample_interval_seconds'
        ) }}

)

select
    cluster_id,
    series_key,
    metric,
    sample_quantity,
    first_sampled_ms,
    coalesce(
        lead(previous_sampled_ms) over (
            partition by series_key, cluster_number, sample_quantity
            order by first_sampled_ms, last_sampled_ms
        ),
        final_sampled_ms
    ) as last_sampled_ms
from first_runs
