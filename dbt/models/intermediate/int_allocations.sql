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

shares as (

    select * from {{ ref('int_claim_shares') }}

),

-- What the journal knows about a pod is exact; samples fill in what it never saw.
requested as (

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
        sampled.first_sampled_second,
        '' as claim_uid,
        cast(1 as bigint) as holder_count
    from journal
    full outer join sampled
        on
            journal.pod_number = sampled.pod_number
            and journal.resource_key = sampled.resource_key

),

-- Of a device that k pods hold, each has the k-th part for as long as they are k.
claimed as (

    select distinct
        pod_number,
        resource_key,
        resource,
        cast(1 as bigint) as device_count,
        cast(1 as bigint) as journal_device_count,
        cast(null as bigint) as sampled_device_count,
        cast(null as varchar) as namespace,
        cast(null as varchar) as pod_name,
        cast(null as varchar) as node_name,
        cast(null as bigint) as first_sampled_second,
        claim_uid,
        holder_count
    from shares

),

paired as (

    select * from requested
    union all
    select * from claimed

),

named as (

    select
        row_number() over (
            order by paired.pod_number, paired.resource_key, paired.claim_uid, paired.holder_count
        ) as allocation_number,
        paired.pod_number,
        pods.cluster_id,
        pods.pod_uid,
        paired.resource_key,
        paired.resource,
        paired.device_count,
        paired.journal_device_count,
        paired.sampled_device_count,
        paired.claim_uid,
        paired.holder_count,
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
