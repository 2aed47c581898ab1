-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{{ config(materialized='ephemeral') }}

with

spans as (

    select * from {{ ref('int_node_class_spans') }}

),

card_changes as (

    select * from {{ ref('int_card_changes') }}

),

unhealthy_changes as (

    select * from {{ ref('int_unhealthy_changes') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

ends as (

    select 1 as change
    union all
    select -1 as change

),

-- A change of nothing at the start of every hour makes the level carried into it visible.
hour_starts as (

    select
        node_classes.node_class_number,
        hours.measured_from_second as event_second
    from node_classes
    inner join hours
        on node_classes.cluster_id = hours.cluster_id

),

events as (

    select
        spans.node_class_number,
        case when ends.change = 1 then spans.started_second else spans.ended_second end
            as event_second,
        {% for quantity in node_class_quantities() %}
            ends.change * spans.{{ quantity }} as {{ quantity }}{{ ',' if not loop.last }}
        {% endfor %}
    from spans
    cross join ends
    union all
    select
        node_class_number,
        event_second,
        {{ quantity_columns({
            'running_cards': 'running_change',
            'capacity_cards': 'capacity_change',
            'allocatable_cards': 'allocatable_change',
        }) }}
    from card_changes
    union all
    select
        node_class_number,
        event_second,
        {{ quantity_columns({
            'unhealthy_compute': 'compute_units',
            'unhealthy_memory': 'memory_units',
        }) }}
    from unhealthy_changes
    union all
    select
        node_class_number,
        event_second,
        {{ quantity_columns({}) }}
    from hour_starts

)

select * from events
