with

spans as (

    select * from {{ ref('int_counted_spans') }}

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

on_nodes as (

    select
        spans.allocation_number,
        spans.allocation_state,
        spans.started_second,
        spans.ended_second,
        node_classes.node_class_number,
        allocations.resource_key,
        allocations.mig_profile,
        -- Shares fill their card, and the card is counted; neither is counted twice.
        case spans.counted_as
            when 'share' then 0
            when 'card' then 1
            else allocations.device_count
        end as device_count,
        case spans.counted_as
            when 'share' then null
            when 'card' then 1
            else {{ devices_per_card(
                'allocations.device_kind',
                'allocations.compute_share_numerator',
                whole_quotient('allocations.compute_share_denominator', 'allocations.holder_count')
            ) }}
        end as devices_per_card,
        coalesce(mig_codes.code_multiplier, 0) as code_multiplier,
        case
            when spans.counted_as = 'card' then 0
            else
                allocations.device_count
                * allocations.compute_share_numerator
                * {{ whole_quotient(
                    'allocations.class_compute_unit * allocations.holder_count',
                    'allocations.compute_share_denominator'
                ) }}
        end as compute_units,
        case
            when spans.counted_as = 'card' then 0
            else
                allocations.device_count
                * allocations.memory_share_numerator
                * {{ whole_quotient(
                    'allocations.class_memory_unit * allocations.holder_count',
                    'allocations.memory_share_denominator'
                ) }}
        end as memory_units
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
