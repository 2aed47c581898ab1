-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{% set shares = ['running_compute', 'running_memory', 'held_compute', 'held_memory'] %}

with

use_intervals as (

    select
        node_class_number,
        started_second,
        ended_second,
        {% for share in shares %}
            {% set state, dimension = share.split('_') %}
            case when allocation_state = '{{ state }}' then {{ dimension }}_units else 0 end
                as {{ share }}{{ ',' if not loop.last }}
        {% endfor %}
    from {{ ref('int_device_use') }}

),

changes as (

    {% for second, sign in [('started_second', ''), ('ended_second', '-')] %}
        select
            node_class_number,
            {{ second }} as event_second,
            0 as offer_number,
            {% for share in shares %}
                {{ sign }}{{ share }} as {{ share }}{{ ',' if not loop.last }}
            {% endfor %}
        from use_intervals
        union all
    {% endfor %}
    -- Offers are numbered without a gap, so each one adds 1 to the number.
    select
        node_class_number,
        event_second,
        1 as offer_number,
        {{ quantity_columns(shares, {}) }}
    from {{ ref('int_node_offers') }}

),

hours as (

    select
        node_classes.node_class_number,
        measured.hour_second,
        measured.measured_from_second,
        measured.measured_until_second
    from {{ ref('int_node_classes') }} as node_classes
    inner join {{ ref('int_measured_hours') }} as measured
        on node_classes.cluster_id = measured.cluster_id

),

levels as (

    {{ levels_by_hour('changes', 'hours', ['node_class_number'], ['offer_number'] + shares) }}

)

select * from levels
