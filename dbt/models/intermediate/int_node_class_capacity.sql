with

capacity as (

    select * from {{ ref('int_node_capacity') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

class_capacity as (

    select
        node_classes.node_class_number,
        capacity.resource_key,
        capacity.mig_profile,
        capacity.started_second,
        capacity.ended_second,
        capacity.capacity_count,
        capacity.allocatable_count,
        capacity.devices_per_card,
        capacity.replica_count,
        capacity.compute_units_each,
        capacity.memory_units_each
    from capacity
    inner join node_classes
        on
            capacity.cluster_id = node_classes.cluster_id
            and capacity.node_name = node_classes.node_name
            and capacity.gpu_class = node_classes.gpu_class

)

select * from class_capacity
