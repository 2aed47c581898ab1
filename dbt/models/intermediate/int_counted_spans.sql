{{ config(materialized='ephemeral') }}

with

reconciled as (

    select *
    from {{ ref('int_allocations_reconciled') }}
    where
        method in ('confirmed', 'lifecycle_only', 'samples_only')
        and started_second < ended_second

),

-- Of a dispute, only what is counted.
disputed as (

    select *
    from {{ ref('int_allocations_split_to_epochs') }}
    where
        method = 'disputed'
        and counted_seconds > 0

),

allocations as (

    select * from {{ ref('int_allocations_classified') }}

),

claim_levels as (

    select * from {{ ref('int_claim_levels') }}

),

-- However many pods hold a claimed device, it is one device of one node.
claimants as (

    select
        cluster_id,
        claim_uid,
        resource_key,
        min(allocation_number) as allocation_number
    from allocations
    where claim_uid <> ''
    group by cluster_id, claim_uid, resource_key

),

spans as (

    select
        allocations.allocation_number,
        reconciled.allocation_state,
        reconciled.started_second,
        reconciled.ended_second
    from reconciled
    inner join allocations
        on reconciled.pod_number = allocations.pod_number
    where allocations.claim_uid = ''
    union all
    select
        disputed.allocation_number,
        disputed.allocation_state,
        disputed.started_second,
        disputed.ended_second
    from disputed
    inner join allocations
        on disputed.allocation_number = allocations.allocation_number
    where allocations.claim_uid = ''
    union all
    select
        claimants.allocation_number,
        case when claim_levels.running_count > 0 then 'running' else 'held' end
            as allocation_state,
        claim_levels.started_second,
        claim_levels.ended_second
    from claim_levels
    inner join claimants
        on
            claim_levels.cluster_id = claimants.cluster_id
            and claim_levels.claim_uid = claimants.claim_uid
            and claim_levels.resource_key = claimants.resource_key

)

select * from spans
