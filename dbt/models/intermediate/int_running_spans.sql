with

reconciled as (

    select *
    from {{ ref('int_allocations_reconciled') }}
    where
        allocation_state = 'running'
        and method in ('confirmed', 'lifecycle_only', 'samples_only')
        and started_second < ended_second

),

-- Of a dispute, only what is counted.
disputed as (

    select *
    from {{ ref('int_allocations_split_to_hours') }}
    where
        allocation_state = 'running'
        and method = 'disputed'
        and counted_seconds > 0

),

allocations as (

    select * from {{ ref('int_allocations_classified') }}

),

spans as (

    select
        allocations.allocation_number,
        reconciled.started_second,
        reconciled.ended_second
    from reconciled
    inner join allocations
        on reconciled.pod_number = allocations.pod_number
    union all
    select
        allocation_number,
        started_second,
        ended_second
    from disputed

),

on_nodes as (

    select
        allocations.cluster_id,
        allocations.node_name,
        spans.allocation_number,
        spans.started_second,
        spans.ended_second,
        allocations.gpu_class,
        allocations.mig_profile,
        allocations.device_kind,
        allocations.device_count,
        allocations.replica_count,
        {{ card_pool('allocations.device_kind', 'allocations.replica_count') }} as card_pool,
        allocations.class_compute_unit,
        allocations.class_memory_unit,
        allocations.device_count
        * allocations.compute_share_numerator
        * {{ whole_quotient(
            'allocations.class_compute_unit', 'allocations.compute_share_denominator'
        ) }} as compute_units,
        allocations.device_count
        * allocations.memory_share_numerator
        * {{ whole_quotient(
            'allocations.class_memory_unit', 'allocations.memory_share_denominator'
        ) }} as memory_units
    from spans
    inner join allocations
        on spans.allocation_number = allocations.allocation_number

)

select * from on_nodes
