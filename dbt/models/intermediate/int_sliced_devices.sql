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

device_counts as (

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
    from device_counts

),

pool_resources as (

    select distinct
        cluster_id,
        node_name,
        pool_name,
        resource_key,
        resource
    from device_counts

),

-- A device that its pool no longer lists has no capacity.
observed_counts as (

    select
        pool_resources.cluster_id,
        pool_resources.node_name,
        pool_resources.resource_key,
        pool_resources.resource,
        observations.observed_second,
        cast(coalesce(device_counts.capacity_count, 0) as bigint) as capacity_count,
        cast(coalesce(device_counts.allocatable_count, 0) as bigint) as allocatable_count
    from observations
    inner join pool_resources
        on
            observations.cluster_id = pool_resources.cluster_id
            and observations.pool_name = pool_resources.pool_name
    left join device_counts
        on
            observations.cluster_id = device_counts.cluster_id
            and observations.pool_name = device_counts.pool_name
            and observations.observed_second = device_counts.observed_second
            and pool_resources.resource_key = device_counts.resource_key

)

select * from observed_counts
