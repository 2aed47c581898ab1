{{ config(materialized='ephemeral') }}

with

reconciled as (

    select *
    from {{ ref('int_allocations_reconciled') }}
    where
        method in ('confirmed', 'lifecycle_only', 'samples_only')
        and started_second < ended_second

),

allocations as (

    select * from {{ ref('int_allocations') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

holders as (

    select distinct
        cluster_id,
        namespace,
        resource_key
    from allocations

),

intervals as (

    select
        allocations.cluster_id,
        allocations.namespace,
        allocations.resource_key,
        allocations.device_count,
        reconciled.started_second,
        reconciled.ended_second
    from reconciled
    inner join allocations
        on
            reconciled.cluster_id = allocations.cluster_id
            and reconciled.pod_uid = allocations.pod_uid

),

events as (

    select
        cluster_id,
        namespace,
        resource_key,
        started_second as event_second,
        device_count
    from intervals
    union all
    select
        cluster_id,
        namespace,
        resource_key,
        ended_second as event_second,
        -device_count as device_count
    from intervals
    union all
    select
        holders.cluster_id,
        holders.namespace,
        holders.resource_key,
        hours.measured_from_second as event_second,
        0 as device_count
    from holders
    inner join hours
        on holders.cluster_id = hours.cluster_id

),

instants as (

    select
        cluster_id,
        namespace,
        resource_key,
        event_second,
        sum(device_count) as device_count
    from events
    group by cluster_id, namespace, resource_key, event_second

),

levels as (

    select
        cluster_id,
        namespace,
        resource_key,
        {{ whole_quotient('event_second', 3600) }} * 3600 as hour_second,
        sum(device_count) over (
            partition by cluster_id, namespace, resource_key
            order by event_second
            rows between unbounded preceding and current row
        ) as allocated_count
    from instants

),

hour_maxima as (

    select
        cluster_id,
        namespace,
        resource_key,
        hour_second,
        cast(max(allocated_count) as bigint) as allocated_count_max
    from levels
    group by cluster_id, namespace, resource_key, hour_second

)

select * from hour_maxima
