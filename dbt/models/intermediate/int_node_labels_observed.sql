{{ config(materialized='ephemeral') }}

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

observed as (

    select * from journal
    union all
    select * from samples

)

select * from observed
