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

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

mig_codes as (

    select * from {{ ref('stg_devices__mig_codes') }}

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

),

on_nodes as (

    select
        spans.allocation_number,
        spans.allocation_state,
        spans.started_second,
        spans.ended_second,
        node_classes.node_class_number,
        allocations.resource_key,
        allocations.mig_profile,
        allocations.device_count,
        {{ devices_per_card(
            'allocations.device_kind',
            'allocations.compute_share_numerator',
            whole_quotient('allocations.compute_share_denominator', 'allocations.holder_count')
        ) }} as devices_per_card,
        coalesce(mig_codes.code_multiplier, 0) as code_multiplier,
        allocations.device_count
        * allocations.compute_share_numerator
        * {{ whole_quotient(
            'allocations.class_compute_unit * allocations.holder_count',
            'allocations.compute_share_denominator'
        ) }} as compute_units,
        allocations.device_count
        * allocations.memory_share_numerator
        * {{ whole_quotient(
            'allocations.class_memory_unit * allocations.holder_count',
            'allocations.memory_share_denominator'
        ) }} as memory_units
    from spans
    inner join allocations
        on spans.allocation_number = allocations.allocation_number
    inner join node_classes
        on
            allocations.cluster_id = node_classes.cluster_id
            and allocations.node_name = node_classes.node_name
            and allocations.gpu_class = node_classes.gpu_class
    left join mig_codes
        on
            allocations.gpu_class = mig_codes.gpu_class
            and allocations.mig_profile = mig_codes.mig_profile
            and allocations.replica_count = mig_codes.replica_count

)

select * from on_nodes
