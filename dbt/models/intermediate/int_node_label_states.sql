with

nodes as (

    select * from {{ ref('stg_kubernetes__nodes') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where metric = 'kube_node_labels'

),

series as (

    select distinct
        cluster_id,
        series_key,
        labels_sha256,
        {{ label('labels', 'node') }} as node_name
    from {{ ref('stg_thanos__series') }}
    where metric = 'kube_node_labels' and label_invalid = ''

),

journal as (

    select
        nodes.cluster_id,
        nodes.node_name,
        nodes.observed_second,
        nodes.journal_position,
        nodes.labels_sha256,
        'kubernetes' as source
    from nodes
    inner join attempts
        on
            nodes.cluster_id = attempts.cluster_id
            and nodes.attempt_id = attempts.attempt_id
    where not nodes.is_deleted

),

samples as (

    select
        runs.cluster_id,
        series.node_name,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as observed_second,
        cast(0 as bigint) as journal_position,
        series.labels_sha256,
        'thanos' as source
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key

),

observations as (

    select * from journal
    union all
    select * from samples

),

-- The journal is preferred: it has a change at its time, samples have it at the next scrape.
ranked_observations as (

    select
        *,
        min(source) over (partition by cluster_id, node_name) as best_source
    from observations

),

changes as (

    select
        *,
        lag(labels_sha256) over (
            partition by cluster_id, node_name
            order by observed_second, journal_position, labels_sha256
        ) as previous_sha256
    from ranked_observations
    where source = best_source

),

-- If a node has several changes in one second, the last one counts.
starts as (

    select
        *,
        row_number() over (
            partition by cluster_id, node_name, observed_second
            order by journal_position desc, labels_sha256 desc
        ) as recency
    from changes
    where previous_sha256 is null or previous_sha256 <> labels_sha256

),

-- Before its first observation, a node has the labels of that observation.
states as (

    select
        cluster_id,
        node_name,
        source,
        labels_sha256,
        case
            when lag(observed_second) over (
                partition by cluster_id, node_name order by observed_second
            ) is null then 0
            else observed_second
        end as valid_from_second,
        coalesce(
            lead(observed_second) over (
                partition by cluster_id, node_name order by observed_second
            ),
            {{ end_of_time() }}
        ) as valid_until_second
    from starts
    where recency = 1

)

select * from states
