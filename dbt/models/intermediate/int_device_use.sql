with

-- Disputed segments are included if their accepted treatment counts them.
counted_segments as (

    select *
    from {{ ref('int_allocations_reconciled') }}
    where is_counted and started_second < ended_second

),

allocations as (

    select * from {{ ref('int_allocations') }}

),

claim_levels as (

    select * from {{ ref('int_claim_shares') }}

),

-- A claimed device counts once on its node, also if several pods hold it.
claimants as (

    select
        cluster_id,
        claim_uid,
        resource_key,
        min(allocation_number) as allocation_number,
        max(case when device_kind = 'share' then 1 else 0 end) as is_share
    from allocations
    where claim_uid <> ''
    group by cluster_id, claim_uid, resource_key

),

-- A card with shares is in use while any of its shares is in use.
shared_cards as (

    select
        cards.cluster_id,
        cards.pool_name,
        cards.resource_key,
        min(allocations.allocation_number) as allocation_number
    from {{ ref('int_claimed_devices') }} as cards
    inner join allocations
        on
            cards.cluster_id = allocations.cluster_id
            and cards.pod_uid = allocations.pod_uid
            and allocations.device_kind = 'share'
            and allocations.resource like cards.resource || ':%'
    where cards.is_card_of_shares
    group by cards.cluster_id, cards.pool_name, cards.resource_key

),

intervals as (

    select
        allocations.allocation_number,
        'device' as counted_as,
        counted_segments.allocation_state,
        counted_segments.started_second,
        counted_segments.ended_second
    from counted_segments
    inner join allocations
        on
            counted_segments.cluster_id = allocations.cluster_id
            and counted_segments.pod_uid = allocations.pod_uid
    where allocations.claim_uid = ''
    union all
    select
        claimants.allocation_number,
        case when claimants.is_share = 1 then 'share' else 'device' end as counted_as,
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
    union all
    select
        shared_cards.allocation_number,
        'card' as counted_as,
        case when claim_levels.running_count > 0 then 'running' else 'held' end
            as allocation_state,
        claim_levels.started_second,
        claim_levels.ended_second
    from claim_levels
    inner join shared_cards
        on
            claim_levels.cluster_id = shared_cards.cluster_id
            and claim_levels.pool_name = shared_cards.pool_name
            and claim_levels.resource_key = shared_cards.resource_key
            and claim_levels.claim_uid = ''

),

node_intervals as (

    select
        intervals.allocation_number,
        intervals.allocation_state,
        intervals.started_second,
        intervals.ended_second,
        node_classes.node_class_number,
        allocations.resource_key,
        allocations.mig_profile,
        -- A share counts as a part of its card, and only the row of the card counts as a card.
        case intervals.counted_as
            when 'share' then 0
            when 'card' then 1
            else allocations.device_count
        end as device_count,
        case intervals.counted_as
            when 'share' then null
            when 'card' then 1
            else {{ devices_per_card(
                'allocations.device_kind',
                'allocations.compute_share_numerator',
                'allocations.compute_share_denominator'
            ) }}
        end as devices_per_card,
        allocations.replica_count,
        case
            when intervals.counted_as = 'card' then 0
            else
                allocations.device_count
                * allocations.compute_share_numerator
                * {{ whole_quotient(
                    'allocations.class_compute_unit',
                    'allocations.compute_share_denominator'
                ) }}
        end as compute_units,
        case
            when intervals.counted_as = 'card' then 0
            else
                allocations.device_count
                * allocations.memory_share_numerator
                * {{ whole_quotient(
                    'allocations.class_memory_unit',
                    'allocations.memory_share_denominator'
                ) }}
        end as memory_units
    from intervals
    inner join allocations
        on intervals.allocation_number = allocations.allocation_number
    inner join {{ ref('int_node_classes') }} as node_classes
        on
            allocations.cluster_id = node_classes.cluster_id
            and allocations.node_name = node_classes.node_name
            and allocations.gpu_class = node_classes.gpu_class

)

select * from node_intervals
