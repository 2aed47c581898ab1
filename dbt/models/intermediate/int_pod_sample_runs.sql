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

-- How far the samples reach before and up to each run, in one order.
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
            rows between unbounded preceding and current row
        ) as reached_ms,
        lead(first_sampled_ms) over (
            partition by series_key, cluster_id, sample_quantity
            order by first_sampled_ms, last_sampled_ms
        ) as next_sampled_ms
    from runs

),

bounded as (

    select
        reached.*,
        reached.previous_sampled_ms is null or {{ is_gap(
            'reached.first_sampled_ms - reached.previous_sampled_ms',
            'coalesce(clusters.sample_interval_seconds, 0)'
        ) }} as is_first,
        reached.next_sampled_ms is null or {{ is_gap(
            'reached.next_sampled_ms - reached.reached_ms',
            'coalesce(clusters.sample_interval_seconds, 0)'
        ) }} as is_last
    from reached
    left join clusters
        on reached.cluster_id = clusters.cluster_id

),

-- The first run of a joined one is followed by its last run, unless it is both.
bounds as (

    select
        *,
        case
            when is_last then reached_ms
            else
                lead(reached_ms) over (
                    partition by series_key, cluster_id, sample_quantity
                    order by first_sampled_ms, last_sampled_ms
                )
        end as end_sampled_ms
    from bounded
    where is_first or is_last

)

select
    cluster_id,
    series_key,
    metric,
    sample_quantity,
    first_sampled_ms,
    end_sampled_ms as last_sampled_ms
from bounds
where is_first
