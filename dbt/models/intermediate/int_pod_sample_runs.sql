with

runs as (

    select
        cluster_id,
        series_key,
        metric,
        sample_quantity,
        first_sampled_ms,
        last_sampled_ms
    from {{ ref('int_sample_runs') }}
    where metric like 'kube_pod_%'

),

-- Windows with shorter intervals have shorter gaps.
clusters as (

    select
        cluster_id,
        min(sample_interval_seconds) as sample_interval_seconds
    from {{ ref('int_cluster_windows') }}
    group by cluster_id

),

-- How far the samples reach before each run, and after all of them; both in one order.
reached as (

    select
        *,
        max(last_sampled_ms) over (
            partition by series_key, cluster_id, sample_quantity
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and 1 preceding
        ) as previous_sampled_ms,
        max(last_sampled_ms) over (
            partition by series_key, cluster_id, sample_quantity
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and unbounded following
        ) as final_sampled_ms
    from runs

),

-- The first run of each joined one.
firsts as (

    select reached.*
    from reached
    left join clusters
        on reached.cluster_id = clusters.cluster_id
    where
        reached.previous_sampled_ms is null
        or {{ is_gap(
            'reached.first_sampled_ms - reached.previous_sampled_ms',
            'coalesce(clusters.sample_interval_seconds, 0)'
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
            partition by series_key, cluster_id, sample_quantity
            order by first_sampled_ms, last_sampled_ms
        ),
        final_sampled_ms
    ) as last_sampled_ms
from firsts
