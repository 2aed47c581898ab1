{{ config(materialized='ephemeral') }}

with

used_classes as (

    select distinct node_class_number
    from {{ ref('int_device_use') }}
    where allocation_state = 'running' and devices_per_card <> 1

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

-- On all other nodes each device is a card.
sliced_nodes as (

    select distinct node_classes.node_number
    from used_classes
    inner join node_classes
        on used_classes.node_class_number = node_classes.node_class_number

)

select * from sliced_nodes
