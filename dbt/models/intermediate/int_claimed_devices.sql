with

claims as (

    select *
    from {{ ref('stg_kubernetes__claims') }}
    where
        device_name <> ''
        -- A claim for administrative access does not take the device from its holders.
        and not is_admin_access
        -- The device of an extended resource is counted by the request of the pod.
        and not is_of_extended_resource

),

known_devices as (

    select * from {{ ref('stg_devices__claimed_devices') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

pods as (

    select
        observations.cluster_id,
        observations.pod_uid
    from {{ ref('stg_kubernetes__pods') }} as observations
    inner join attempts
        on
            observations.cluster_id = attempts.cluster_id
            and observations.attempt_id = attempts.attempt_id
    union
    select
        cluster_id,
        pod_uid
    from {{ ref('int_pod_series') }}

),

resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

-- The status of a claim has the UIDs of its pods before the pods are bound.
reservations as (

    select distinct
        claims.cluster_id,
        known_devices.holding_key as claim_uid,
        claims.pool_name,
        claims.driver_name || '/' || claims.device_name as device,
        known_devices.resource,
        {{ each_item('claims.pod_uids') }} as pod_uid
    from claims
    inner join attempts
        on
            claims.cluster_id = attempts.cluster_id
            and claims.attempt_id = attempts.attempt_id
    inner join known_devices
        on
            claims.cluster_id = known_devices.cluster_id
            and claims.claim_uid = known_devices.claim_uid
            and claims.driver_name = known_devices.driver_name
            and claims.pool_name = known_devices.pool_name
            and claims.device_name = known_devices.device_name
            and claims.share_id = known_devices.share_id

),

-- Each share of a card is counted, and the card itself is counted once.
device_holders as (

    select
        cluster_id,
        claim_uid,
        pool_name,
        resource,
        pod_uid,
        false as is_card_of_shares
    from reservations
    union all
    select distinct
        cluster_id,
        '' as claim_uid,
        pool_name,
        device as resource,
        pod_uid,
        true as is_card_of_shares
    from reservations
    where resource <> device

),

devices as (

    select
        device_holders.cluster_id,
        device_holders.pod_uid,
        device_holders.claim_uid,
        device_holders.pool_name,
        resources.resource_key,
        device_holders.resource,
        device_holders.is_card_of_shares
    from device_holders
    inner join pods
        on
            device_holders.cluster_id = pods.cluster_id
            and device_holders.pod_uid = pods.pod_uid
    inner join resources
        on device_holders.resource = resources.resource

)

select * from devices
