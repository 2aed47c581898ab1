{{ config(materialized='ephemeral') }}

with

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where
        metric in ('kube_node_status_capacity', 'kube_node_status_allocatable')
        and sample_quantity is not null

),

series as (

    select distinct
        cluster_id,
        series_key,
        {{ label('labels', 'node') }} as node_name,
        {{ label('labels', 'resource') }} as resource
    from {{ ref('stg_thanos__series') }}
    where
        metric in ('kube_node_status_capacity', 'kube_node_status_allocatable')
        and label_invalid = ''

),

known_resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

sampled as (

    select
        runs.cluster_id,
        series.node_name,
        known_resources.resource_key,
        min(series.resource) as resource,
        'thanos' as source,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as observed_second,
        max(case when runs.metric = 'kube_node_status_capacity' then runs.sample_quantity end)
            as capacity_count,
        max(case when runs.metric = 'kube_node_status_allocatable' then runs.sample_quantity end)
            as allocatable_count
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    inner join known_resources
        on series.resource = known_resources.resource
    group by
        runs.cluster_id,
        series.node_name,
        known_resources.resource_key,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }}

),

completed as (

    select
        cluster_id,
        node_name,
        resource_key,
        resource,
        source,
        observed_second,
        coalesce(capacity_count, allocatable_count) as capacity_count,
        coalesce(allocatable_count, capacity_count) as allocatable_count
    from sampled

)

select * from completed
