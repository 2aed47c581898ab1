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

devices as (

    select * from {{ ref('int_allocation_devices') }}

),

spans as (

    select
        reconciled.cluster_id,
        reconciled.pod_uid,
        devices.resource_key,
        reconciled.started_second,
        reconciled.ended_second
    from reconciled
    inner join devices
        on
            reconciled.cluster_id = devices.cluster_id
            and reconciled.pod_uid = devices.pod_uid
    union all
    select
        cluster_id,
        pod_uid,
        resource_key,
        started_second,
        ended_second
    from disputed

),

on_nodes as (

    select
        spans.cluster_id,
        spans.pod_uid,
        spans.resource_key,
        spans.started_second,
        spans.ended_second,
        devices.node_name,
        devices.gpu_class,
        devices.mig_profile,
        devices.device_kind,
        devices.device_count,
        devices.replica_count,
        {{ card_pool('devices.device_kind', 'devices.replica_count') }} as card_pool,
        devices.class_compute_unit,
        devices.class_memory_unit,
        devices.device_count
        * devices.compute_share_numerator
        * {{ whole_quotient('devices.class_compute_unit', 'devices.compute_share_denominator') }}
            as compute_units,
        devices.device_count
        * devices.memory_share_numerator
        * {{ whole_quotient('devices.class_memory_unit', 'devices.memory_share_denominator') }}
            as memory_units
    from spans
    inner join devices
        on
            spans.cluster_id = devices.cluster_id
            and spans.pod_uid = devices.pod_uid
            and spans.resource_key = devices.resource_key

)

select * from on_nodes
