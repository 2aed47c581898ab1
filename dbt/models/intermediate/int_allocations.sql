with

requests as (

    select * from {{ ref('int_requests') }}

),

pods as (

    select * from {{ ref('int_pods') }}

),

observed as (

    select * from {{ ref('int_pods_observed') }}

),

owners as (

    select * from {{ ref('int_pod_owners') }}

),

named as (

    select
        row_number() over (
            order by
                requests.pod_number,
                requests.resource_key,
                requests.claim_uid
        ) as allocation_number,
        requests.pod_number,
        pods.cluster_id,
        pods.pod_uid,
        requests.resource_key,
        requests.resource,
        requests.device_count,
        requests.journal_device_count,
        requests.sampled_device_count,
        requests.claim_uid,
        coalesce(nullif(observed.namespace, ''), requests.namespace, '') as namespace,
        coalesce(nullif(observed.pod_name, ''), requests.pod_name, '') as pod_name,
        coalesce(nullif(observed.node_name, ''), requests.node_name, '') as node_name,
        coalesce(nullif(observed.workload_kind, ''), owners.workload_kind, 'Pod') as workload_kind,
        coalesce(
            nullif(observed.workload_name, ''),
            owners.workload_name,
            nullif(observed.pod_name, ''),
            requests.pod_name,
            ''
        ) as workload_name,
        coalesce(
            observed.bound_second, observed.started_second, requests.first_sampled_second, 0
        ) as settled_second
    from requests
    inner join pods
        on requests.pod_number = pods.pod_number
    left join observed
        on
            pods.cluster_id = observed.cluster_id
            and pods.pod_uid = observed.pod_uid
    left join owners
        on requests.pod_number = owners.pod_number

)

select * from named
