-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{% set shares = ['running_compute', 'running_memory', 'held_compute', 'held_memory'] %}
{% set quantities = ['offers', 'running_cards'] + shares %}

with

use_intervals as (

    select
        node_class_number,
        started_second,
        ended_second,
        -- MIG slices and replicas are not whole cards.
        case
            when allocation_state = 'running' and devices_per_card = 1 then device_count
            else 0
        end as running_cards,
        {% for share in shares %}
            {% set state, dimension = share.split('_') %}
            case when allocation_state = '{{ state }}' then {{ dimension }}_units else 0 end
                as {{ share }}{{ ',' if not loop.last }}
        {% endfor %}
    from {{ ref('int_device_use') }}

),

-- Each use changes the counts at its start and at its end.
ends as (

    select 1 as change
    union all
    select -1 as change

),

events as (

    select
        use_intervals.node_class_number,
        case
            when ends.change = 1 then use_intervals.started_second
            else use_intervals.ended_second
        end as event_second,
        cast(0 as bigint) as offers,
        {% for quantity in ['running_cards'] + shares %}
            ends.change * use_intervals.{{ quantity }} as {{ quantity }}{{ ',' if not loop.last }}
        {% endfor %}
    from use_intervals
    cross join ends
    union all
    select
        node_class_number,
        event_second,
        {{ quantity_columns(quantities, {'running_cards': 'running_change'}) }}
    from {{ ref('int_shared_card_changes') }}
    where running_change <> 0
    union all
    select
        node_class_number,
        event_second,
        {{ quantity_columns(quantities, {'offers': '1'}) }}
    from {{ ref('int_node_offers') }}
    union all
    -- A change by 0 at the start of each hour gives the hour a row with the level at its start.
    select
        node_classes.node_class_number,
        hours.measured_from_second as event_second,
        {{ quantity_columns(quantities, {}) }}
    from {{ ref('int_node_classes') }} as node_classes
    inner join {{ ref('int_measured_hours') }} as hours
        on node_classes.cluster_id = hours.cluster_id

),

-- All changes of one second are added before the level is read, so that an end and a start in one
-- second do not overlap.
instants as (

    select
        node_class_number,
        event_second,
        {% for quantity in quantities %}
            sum({{ quantity }}) as {{ quantity }}{{ ',' if not loop.last }}
        {% endfor %}
    from events
    group by node_class_number, event_second

),

levels as (

    select
        node_class_number,
        event_second,
        lead(event_second) over so_far as next_second,
        {% for quantity in quantities %}
            cast(sum({{ quantity }}) over so_far as bigint) as {{ quantity }}
            {{- ',' if not loop.last }}
        {% endfor %}
    from instants
    window so_far as (partition by node_class_number order by event_second)

),

measured_levels as (

    select
        levels.node_class_number,
        levels.offers as offer_number,
        hours.hour_second,
        levels.event_second as started_second,
        least(
            coalesce(levels.next_second, hours.measured_until_second),
            hours.measured_until_second
        ) as ended_second,
        levels.running_cards,
        {% for share in shares %}
            levels.{{ share }}{{ ',' if not loop.last }}
        {% endfor %}
    from levels
    inner join {{ ref('int_node_classes') }} as node_classes
        on levels.node_class_number = node_classes.node_class_number
    inner join {{ ref('int_measured_hours') }} as hours
        on
            node_classes.cluster_id = hours.cluster_id
            and {{ whole_quotient('levels.event_second', 3600) }} * 3600 = hours.hour_second
    where
        levels.event_second >= hours.measured_from_second
        and levels.event_second < hours.measured_until_second

)

select * from measured_levels
