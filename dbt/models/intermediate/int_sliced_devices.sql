with

devices as (

    select * from {{ ref('stg_kubernetes__slice_devices') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

known_resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

seen as (

    select
        devices.cluster_id,
        devices.node_name,
        devices.pool_name,
        known_resources.resource_key,
        known_resources.resource,
        devices.observed_second,
        max(case when devices.is_deleted then 0 else 1 end) as capacity_count,
        max(case when devices.is_deleted or devices.is_tainted then 0 else 1 end)
            as allocatable_count
    from devices
    inner join attempts
        on
            devices.cluster_id = attempts.cluster_id
            and devices.attempt_id = attempts.attempt_id
    inner join known_resources
        on devices.driver_name || '/' || devices.device_name = known_resources.resource
    group by
        devices.cluster_id,
        devices.node_name,
        devices.pool_name,
        known_resources.resource_key,
        known_resources.resource,
        devices.observed_second

),

observations as (

    select distinct
        cluster_id,
        pool_name,
        observed_second
    from seen

),

offered as (

    select distinct
        cluster_id,
        node_name,
        pool_name,
        resource_key,
        resource
    from seen

),

-- A device that its pool no longer lists is not offered any more.
looked as (

    select
        offered.cluster_id,
        offered.node_name,
        offered.resource_key,
        offered.resource,
        observations.observed_second,
        cast(coalesce(seen.capacity_count, 0) as bigint) as capacity_count,
        cast(coalesce(seen.allocatable_count, 0) as bigint) as allocatable_count
    from observations
    inner join offered
        on
            observations.cluster_id = offered.cluster_id
            and observations.pool_name = offered.pool_name
    left join seen
        on
            observations.cluster_id = seen.cluster_id
            and observations.pool_name = seen.pool_name
            and observations.observed_second = seen.observed_second
            and offered.resource_key = seen.resource_key

)

select * from looked
