with

resources as (

    select * from {{ ref('stg_kubernetes__node_resources') }}

),

nodes as (

    select * from {{ ref('stg_kubernetes__nodes') }}

),

attempts as (

    select distinct
        cluster_id,
        attempt_id
    from {{ ref('int_attempts_used') }}
    where source = 'kubernetes'

),

known_resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

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
    where metric in ('kube_node_status_capacity', 'kube_node_status_allocatable')

),

journal as (

    select
        resources.cluster_id,
        resources.node_name,
        known_resources.resource_key,
        resources.resource,
        'kubernetes' as source,
        resources.observed_second,
        max(resources.capacity_count) as capacity_count,
        max(resources.allocatable_count) as allocatable_count
    from resources
    inner join attempts
        on
            resources.cluster_id = attempts.cluster_id
            and resources.attempt_id = attempts.attempt_id
    inner join known_resources
        on resources.resource = known_resources.resource
    group by
        resources.cluster_id,
        resources.node_name,
        known_resources.resource_key,
        resources.resource,
        resources.observed_second

),

-- A node that is gone offers nothing, and neither does a resource that it no longer lists.
looks as (

    select distinct
        nodes.cluster_id,
        nodes.node_name,
        nodes.observed_second
    from nodes
    inner join attempts
        on
            nodes.cluster_id = attempts.cluster_id
            and nodes.attempt_id = attempts.attempt_id

),

offered as (

    select distinct
        cluster_id,
        node_name,
        resource_key,
        resource
    from journal

),

looked as (

    select
        looks.cluster_id,
        looks.node_name,
        offered.resource_key,
        offered.resource,
        'kubernetes' as source,
        looks.observed_second,
        coalesce(journal.capacity_count, 0) as capacity_count,
        coalesce(journal.allocatable_count, 0) as allocatable_count
    from looks
    inner join offered
        on
            looks.cluster_id = offered.cluster_id
            and looks.node_name = offered.node_name
    left join journal
        on
            looks.cluster_id = journal.cluster_id
            and looks.node_name = journal.node_name
            and looks.observed_second = journal.observed_second
            and offered.resource_key = journal.resource_key

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

sliced as (

    select * from {{ ref('int_sliced_devices') }}

),

observed as (

    select * from looked
    union all
    select
        cluster_id,
        node_name,
        resource_key,
        resource,
        'kubernetes' as source,
        observed_second,
        capacity_count,
        allocatable_count
    from sliced
    union all
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

),

best as (

    select
        *,
        min(source) over (partition by cluster_id, node_name) as best_source
    from observed

),

changes as (

    select
        *,
        lag(capacity_count) over (
            partition by cluster_id, node_name, resource_key order by observed_second
        ) as previous_capacity,
        lag(allocatable_count) over (
            partition by cluster_id, node_name, resource_key order by observed_second
        ) as previous_allocatable
    from best
    where source = best_source

),

starts as (

    select *
    from changes
    where
        previous_capacity is null
        or previous_capacity <> capacity_count
        or previous_allocatable <> allocatable_count

),

states as (

    select
        cluster_id,
        node_name,
        resource_key,
        resource,
        source,
        capacity_count,
        allocatable_count,
        case when previous_capacity is null then 0 else observed_second end as valid_from_second,
        coalesce(
            lead(observed_second) over (
                partition by cluster_id, node_name, resource_key order by observed_second
            ),
            {{ end_of_time() }}
        ) as valid_until_second
    from starts

)

select * from states
