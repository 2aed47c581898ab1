with

known_resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

listed as (

    select
        resources.cluster_id,
        resources.node_name,
        known_resources.resource_key,
        resources.resource,
        resources.observed_second,
        max(resources.capacity_count) as capacity_count,
        max(resources.allocatable_count) as allocatable_count
    from {{ ref('stg_kubernetes__node_resources') }} as resources
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

node_observations as (

    select distinct
        nodes.cluster_id,
        nodes.node_name,
        nodes.observed_second
    from {{ ref('stg_kubernetes__nodes') }} as nodes
    inner join attempts
        on
            nodes.cluster_id = attempts.cluster_id
            and nodes.attempt_id = attempts.attempt_id

),

listed_resources as (

    select distinct
        cluster_id,
        node_name,
        resource_key,
        resource
    from listed

),

-- A node that is gone offers nothing, and neither does a resource that it no longer lists.
from_journal as (

    select
        node_observations.cluster_id,
        node_observations.node_name,
        listed_resources.resource_key,
        listed_resources.resource,
        'kubernetes' as source,
        node_observations.observed_second,
        coalesce(listed.capacity_count, 0) as capacity_count,
        coalesce(listed.allocatable_count, 0) as allocatable_count
    from node_observations
    inner join listed_resources
        on
            node_observations.cluster_id = listed_resources.cluster_id
            and node_observations.node_name = listed_resources.node_name
    left join listed
        on
            node_observations.cluster_id = listed.cluster_id
            and node_observations.node_name = listed.node_name
            and node_observations.observed_second = listed.observed_second
            and listed_resources.resource = listed.resource

),

from_slices as (

    select
        cluster_id,
        node_name,
        resource_key,
        resource,
        'kubernetes' as source,
        observed_second,
        capacity_count,
        allocatable_count
    from {{ ref('int_sliced_devices') }}

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

sampled as (

    select
        runs.cluster_id,
        series.node_name,
        known_resources.resource_key,
        min(series.resource) as resource,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as observed_second,
        max(case when runs.metric = 'kube_node_status_capacity' then runs.sample_quantity end)
            as capacity_count,
        max(case when runs.metric = 'kube_node_status_allocatable' then runs.sample_quantity end)
            as allocatable_count
    from {{ ref('int_sample_runs') }} as runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    inner join known_resources
        on series.resource = known_resources.resource
    where
        runs.metric in ('kube_node_status_capacity', 'kube_node_status_allocatable')
        and runs.sample_quantity is not null
    group by
        runs.cluster_id,
        series.node_name,
        known_resources.resource_key,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }}

),

from_samples as (

    select
        cluster_id,
        node_name,
        resource_key,
        resource,
        'thanos' as source,
        observed_second,
        coalesce(capacity_count, allocatable_count) as capacity_count,
        coalesce(allocatable_count, capacity_count) as allocatable_count
    from sampled

),

observed as (

    select * from from_journal
    union all
    select * from from_slices
    union all
    select * from from_samples

),

-- The journal sees a change when it happens, samples see it with the next scrape.
ranked as (

    select
        *,
        min(source) over (partition by cluster_id, node_name) as best_source
    from observed

),

-- By its own name: kube-state-metrics writes `1g.24gb.me` and `1g.24gb-me` in one way.
changes as (

    select
        *,
        lag(capacity_count) over (
            partition by cluster_id, node_name, resource order by observed_second
        ) as previous_capacity,
        lag(allocatable_count) over (
            partition by cluster_id, node_name, resource order by observed_second
        ) as previous_allocatable
    from ranked
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

-- Before a resource was first seen, its node is taken to have had as many of it.
levels as (

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
                partition by cluster_id, node_name, resource order by observed_second
            ),
            {{ end_of_time() }}
        ) as valid_until_second
    from starts

)

select * from levels
