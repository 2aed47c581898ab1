with

journal as (

    select * from {{ ref('int_journal_requests') }}

),

sampled as (

    select * from {{ ref('int_sampled_requests') }}

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

-- What the journal knows about a pod is exact; samples fill in what it never saw.
paired as (

    select
        coalesce(journal.pod_number, sampled.pod_number) as pod_number,
        coalesce(journal.resource_key, sampled.resource_key) as resource_key,
        coalesce(journal.resource, sampled.resource) as resource,
        coalesce(journal.device_count, sampled.device_count) as device_count,
        journal.device_count as journal_device_count,
        sampled.device_count as sampled_device_count,
        sampled.namespace,
        sampled.pod_name,
        sampled.node_name,
        sampled.first_sampled_second
    from journal
    full outer join sampled
        on
            journal.pod_number = sampled.pod_number
            and journal.resource_key = sampled.resource_key

),

named as (

    select
        row_number() over (order by paired.pod_number, paired.resource_key) as allocation_number,
        paired.pod_number,
        pods.cluster_id,
        pods.pod_uid,
        paired.resource_key,
        paired.resource,
        paired.device_count,
        paired.journal_device_count,
        paired.sampled_device_count,
        coalesce(nullif(observed.namespace, ''), paired.namespace, '') as namespace,
        coalesce(nullif(observed.pod_name, ''), paired.pod_name, '') as pod_name,
        coalesce(nullif(observed.node_name, ''), paired.node_name, '') as node_name,
        coalesce(nullif(observed.workload_kind, ''), owners.workload_kind, 'Pod') as workload_kind,
        coalesce(
            nullif(observed.workload_name, ''),
            owners.workload_name,
            nullif(observed.pod_name, ''),
            paired.pod_name,
            ''
        ) as workload_name,
        coalesce(
            observed.bound_second, observed.started_second, paired.first_sampled_second, 0
        ) as settled_second
    from paired
    inner join pods
        on paired.pod_number = pods.pod_number
    left join observed
        on
            pods.cluster_id = observed.cluster_id
            and pods.pod_uid = observed.pod_uid
    left join owners
        on paired.pod_number = owners.pod_number

)

select * from named
