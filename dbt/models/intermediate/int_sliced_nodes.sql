{{ config(materialized='ephemeral') }}

with

used as (

    select distinct node_class_number
    from {{ ref('int_device_use') }}
    where allocation_state = 'running' and devices_per_card <> 1

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

-- On any other node each device is a card of its own, and counting devices is counting cards.
sliced as (

    select distinct node_classes.node_number
    from used
    inner join node_classes
        on used.node_class_number = node_classes.node_class_number

)

select * from sliced
