{{ config(materialized='ephemeral') }}

with

resources as (

    select * from {{ ref('stg_kubernetes__node_resources') }}

),

nodes as (

    select * from {{ ref('stg_kubernetes__nodes') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

known_resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

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
            and offered.resource = journal.resource

)

select * from looked
