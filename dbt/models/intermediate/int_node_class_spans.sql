-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{{ config(materialized='ephemeral') }}

with

used as (

    select
        *,
        allocation_state = 'running' as is_running
    from {{ ref('int_device_spans') }}

),

offered as (

    select * from {{ ref('int_capacity_spans') }}

),

labelled as (

    select * from {{ ref('int_node_labelled_cards') }}

),

unmeasured as (

    select * from {{ ref('int_unmeasured_stretches') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

-- What a node has of a class for some time. Whole cards are counted as they are.
spans as (

    select
        node_class_number,
        started_second,
        ended_second,
        {{ quantity_columns({
            'running_cards': 'case when is_running and devices_per_card = 1 then device_count else 0 end',
            'running_code': 'case when is_running then device_count * code_multiplier else 0 end',
            'running_compute': 'case when is_running then compute_units else 0 end',
            'running_memory': 'case when is_running then memory_units else 0 end',
            'held_compute': 'case when is_running then 0 else compute_units end',
            'held_memory': 'case when is_running then 0 else memory_units end',
        }) }}
    from used
    union all
    select
        node_class_number,
        started_second,
        ended_second,
        {{ quantity_columns({
            'capacity_cards': 'case when devices_per_card = 1 then capacity_count else 0 end',
            'allocatable_cards': 'case when devices_per_card = 1 then allocatable_count else 0 end',
            'offered_code': 'capacity_count * code_multiplier',
            'allocatable_code': 'allocatable_count * code_multiplier',
            'offered_compute': 'capacity_count * compute_units_each',
            'offered_memory': 'capacity_count * memory_units_each',
        }) }}
    from offered
    union all
    select
        node_classes.node_class_number,
        labelled.started_second,
        labelled.ended_second,
        {{ quantity_columns({'labelled_cards': 'labelled.labelled_card_count'}) }}
    from labelled
    inner join node_classes
        on
            labelled.cluster_id = node_classes.cluster_id
            and labelled.node_name = node_classes.node_name
            and labelled.gpu_class = node_classes.gpu_class
    union all
    select
        node_classes.node_class_number,
        unmeasured.started_second,
        unmeasured.ended_second,
        {{ quantity_columns({'unmeasured': '1'}) }}
    from unmeasured
    inner join node_classes
        on unmeasured.cluster_id = node_classes.cluster_id

)

select * from spans
