-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{{ config(materialized='ephemeral') }}
{% set shares = ['running_compute', 'running_memory', 'held_compute', 'held_memory'] %}

with

-- What of a class is in use for some time, by both dimensions.
used as (

    select
        node_class_number,
        started_second,
        ended_second,
        {% for share in shares %}
            {% set state, dimension = share.split('_') %}
            case when allocation_state = '{{ state }}' then {{ dimension }}_units else 0 end
                as {{ share }}{{ ',' if not loop.last }}
        {% endfor %}
    from {{ ref('int_device_spans') }}

),

-- Every use begins and ends.
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
        cast(0 as bigint) as packed_change,
        {% for share in shares %}
            ends.change * used.{{ share }} as {{ share }}{{ ',' if not loop.last }}
        {% endfor %}
    from used
    cross join ends
    union all
    select
        node_class_number,
        event_second,
        {{ packed(offers='1') }} as packed_change,
        {{ quantity_columns(shares, {}) }}
    from {{ ref('int_node_offer_levels') }}
    union all
    -- At the start of every hour the level carried into it becomes visible.
    select
        node_classes.node_class_number,
        changes.event_second,
        {{ packed(measured='changes.measured_change') }} as packed_change,
        {{ quantity_columns(shares, {}) }}
    from {{ ref('int_node_classes') }} as node_classes
    inner join {{ ref('int_measured_changes') }} as changes
        on node_classes.cluster_id = changes.cluster_id

),

-- All that happens in one second counts at once: what ends and what starts does not overlap.
levels as (

    select
        node_class_number,
        event_second,
        lead(event_second) over (partition by node_class_number order by event_second)
            as next_second,
        cast(sum(packed_change) over so_far as bigint) as packed_level,
        {% for share in shares %}
            cast(sum({{ share }}) over so_far as bigint) as {{ share }}{{ ',' if not loop.last }}
        {% endfor %}
    from events
    window
        so_far as (
            partition by node_class_number
            order by event_second
            range between unbounded preceding and current row
        )

),

measured as (

    select
        node_class_number,
        {{ packed_offer('packed_level') }} as offer_number,
        {{ whole_quotient('event_second', 3600) }} * 3600 as hour_second,
        event_second as started_second,
        next_second as ended_second,
        {% for share in shares %}
            {{ share }}{{ ',' if not loop.last }}
        {% endfor %}
    from levels
    where event_second < next_second and {{ packed_is_measured('packed_level') }}

)

select * from measured
