-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{{ config(materialized='ephemeral') }}
{% set quantities = used_quantities() %}

with

-- What of a class is in use for some time. Whole cards are counted as they are.
used as (

    select
        node_class_number,
        started_second,
        ended_second,
        {{ quantity_columns(quantities, {
            'running_cards': "case when allocation_state = 'running' and devices_per_card = 1 then device_count else 0 end",
            'running_code': "case when allocation_state = 'running' then device_count * code_multiplier else 0 end",
            'running_compute': "case when allocation_state = 'running' then compute_units else 0 end",
            'running_memory': "case when allocation_state = 'running' then memory_units else 0 end",
            'held_compute': "case when allocation_state = 'held' then compute_units else 0 end",
            'held_memory': "case when allocation_state = 'held' then memory_units else 0 end",
        }) }}
    from {{ ref('int_device_spans') }}

),

ends as (

    select 1 as change
    union all
    select -1 as change

),

events as (

    select
        used.node_class_number,
        case when ends.change = 1 then used.started_second else used.ended_second end
            as event_second,
        0 as offer_change,
        {% for quantity in quantities %}
            ends.change * used.{{ quantity }} as {{ quantity }}{{ ',' if not loop.last }}
        {% endfor %}
    from used
    cross join ends
    union all
    select
        node_class_number,
        event_second,
        0 as offer_change,
        {{ quantity_columns(quantities, {'running_cards': 'running_change'}) }}
    from {{ ref('int_card_changes') }}
    union all
    select
        node_class_number,
        event_second,
        1 as offer_change,
        {{ quantity_columns(quantities, {}) }}
    from {{ ref('int_node_offer_levels') }}
    union all
    -- A change of nothing at the start of every hour makes the level carried into it visible.
    select
        node_classes.node_class_number,
        hours.measured_from_second as event_second,
        0 as offer_change,
        {{ quantity_columns(quantities, {}) }}
    from {{ ref('int_node_classes') }} as node_classes
    inner join {{ ref('int_measured_hours') }} as hours
        on node_classes.cluster_id = hours.cluster_id

)

select * from events
