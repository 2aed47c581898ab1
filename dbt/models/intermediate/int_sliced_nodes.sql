{{ config(materialized='ephemeral') }}

with

spans as (

    select distinct node_class_number
    from {{ ref('int_device_spans') }}
    where allocation_state = 'running' and devices_per_card <> 1

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

-- On any other node each device is a card of its own, and counting devices is counting cards.
sliced as (

    select distinct node_classes.node_number
    from spans
    inner join node_classes
        on spans.node_class_number = node_classes.node_class_number

)

select * from sliced
