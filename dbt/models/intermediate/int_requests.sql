{{ config(materialized='ephemeral') }}

with

journal as (

    select * from {{ ref('int_journal_requests') }}

),

sampled as (

    select * from {{ ref('int_sampled_requests') }}

),

claimed_devices as (

    select *
    from {{ ref('int_claimed_devices') }}
    where not is_card_of_shares

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
        '' as claim_uid
    from journal
    full outer join sampled
        on
            journal.pod_number = sampled.pod_number
            and journal.resource_key = sampled.resource_key

),

claimed as (

    select distinct
        pod_number,
        resource_key,
        resource,
        cast(1 as bigint) as device_count,
        cast(1 as bigint) as journal_device_count,
        cast(null as bigint) as sampled_device_count,
        cast(null as string) as namespace,
        cast(null as string) as pod_name,
        cast(null as string) as node_name,
        cast(null as bigint) as first_sampled_second,
        claim_uid
    from claimed_devices

),

paired as (

    select * from requested
    union all
    select * from claimed

)

select * from paired
