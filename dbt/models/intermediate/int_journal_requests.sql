with

requests as (

    select * from {{ ref('stg_kubernetes__pod_requests') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

pods as (

    select * from {{ ref('int_pods') }}

),

numbered as (

    select
        pods.pod_number,
        resources.resource_key,
        requests.resource,
        max(requests.device_count) as device_count
    from requests
    inner join attempts
        on
            requests.cluster_id = attempts.cluster_id
            and requests.attempt_id = attempts.attempt_id
    inner join resources
        on requests.resource = resources.resource
    inner join pods
        on
            requests.cluster_id = pods.cluster_id
            and requests.pod_uid = pods.pod_uid
    where requests.device_count > 0
    group by pods.pod_number, resources.resource_key, requests.resource

)

select * from numbered
