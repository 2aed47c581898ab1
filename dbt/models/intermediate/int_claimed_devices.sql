with

claims as (

    select *
    from {{ ref('stg_kubernetes__claims') }}
    where
        device_name <> ''
        -- An administrator's look takes the device from nobody.
        and not is_admin_access
        -- The pod's own request says the same.
        and not is_of_extended_resource

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

pods as (

    select * from {{ ref('int_pods') }}

),

resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

-- A claim is reserved for a pod before it is bound, and for no other life of that name.
reserved as (

    select distinct
        claims.cluster_id,
        claims.claim_uid,
        claims.pool_name,
        claims.driver_name || '/' || claims.device_name as resource,
        {{ each_item('claims.pod_uids') }} as pod_uid
    from claims
    inner join attempts
        on
            claims.cluster_id = attempts.cluster_id
            and claims.attempt_id = attempts.attempt_id

),

devices as (

    select
        pods.pod_number,
        reserved.cluster_id,
        reserved.claim_uid,
        reserved.pool_name,
        resources.resource_key,
        reserved.resource
    from reserved
    inner join pods
        on
            reserved.cluster_id = pods.cluster_id
            and reserved.pod_uid = pods.pod_uid
    inner join resources
        on reserved.resource = resources.resource

)

select * from devices
