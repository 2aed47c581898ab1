{{ config(materialized='ephemeral') }}

with

observed as (

    select * from {{ ref('int_node_resources_listed') }}
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
    from {{ ref('int_sliced_devices') }}
    union all
    select * from {{ ref('int_node_resources_sampled') }}

),

best as (

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
                partition by cluster_id, node_name, resource order by observed_second
            ),
            {{ end_of_time() }}
        ) as valid_until_second
    from starts

)

select * from states
