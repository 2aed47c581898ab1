with

pieces as (

    select * from {{ ref('int_node_capacity') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

mig_codes as (

    select * from {{ ref('stg_devices__mig_codes') }}

),

on_nodes as (

    select
        node_classes.node_class_number,
        pieces.resource_key,
        pieces.mig_profile,
        pieces.started_second,
        pieces.ended_second,
        pieces.capacity_count,
        pieces.allocatable_count,
        pieces.devices_per_card,
        coalesce(mig_codes.code_multiplier, 0) as code_multiplier,
        pieces.compute_units_each,
        pieces.memory_units_each
    from pieces
    inner join node_classes
        on
            pieces.cluster_id = node_classes.cluster_id
            and pieces.node_name = node_classes.node_name
            and pieces.gpu_class = node_classes.gpu_class
    left join mig_codes
        on
            pieces.gpu_class = mig_codes.gpu_class
            and pieces.mig_profile = mig_codes.mig_profile
            and pieces.replica_count = mig_codes.replica_count

)

select * from on_nodes
