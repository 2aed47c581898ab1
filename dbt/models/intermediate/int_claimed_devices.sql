with

claims as (

    select *
    from {{ ref('stg_kubernetes__claims') }}
    where
        device_name <> ''
        -- Access for administration leaves the device to its holders.
        and not is_admin_access
        -- The pod's own request is counted.
        and not is_of_extended_resource

),

given as (

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

-- A claim is reserved for a UID, before the pod is bound.
reserved as (

    select distinct
        claims.cluster_id,
        given.holding_key as claim_uid,
        claims.pool_name,
        claims.driver_name || '/' || claims.device_name as device,
        given.resource,
        {{ each_item('claims.pod_uids') }} as pod_uid
    from claims
    inner join attempts
        on
            claims.cluster_id = attempts.cluster_id
            and claims.attempt_id = attempts.attempt_id
    inner join given
        on
            claims.cluster_id = given.cluster_id
            and claims.claim_uid = given.claim_uid
            and claims.driver_name = given.driver_name
            and claims.pool_name = given.pool_name
            and claims.device_name = given.device_name
            and claims.share_id = given.share_id

),

-- Shares of one card are counted one by one, and the card is counted once.
held as (

    select
        cluster_id,
        claim_uid,
        pool_name,
        resource,
        pod_uid,
        false as is_card_of_shares
    from reserved
    union all
    select distinct
        cluster_id,
        '' as claim_uid,
        pool_name,
        device as resource,
        pod_uid,
        true as is_card_of_shares
    from reserved
    where resource <> device

),

devices as (

    select
        held.cluster_id,
        held.pod_uid,
        held.claim_uid,
        held.pool_name,
        resources.resource_key,
        held.resource,
        held.is_card_of_shares
    from held
    inner join pods
        on
            held.cluster_id = pods.cluster_id
            and held.pod_uid = pods.pod_uid
    inner join resources
        on held.resource = resources.resource

)

select * from devices
