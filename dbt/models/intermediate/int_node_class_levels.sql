-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{% set quantities = used_quantities() %}

with

events as (

    select * from {{ ref('int_node_class_events') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

offers as (

    select * from {{ ref('int_node_offer_levels') }}

),

-- What ends and what starts in the same second does not overlap.
instants as (

    select
        node_class_number,
        event_second,
        cast(sum(offer_change) as bigint) as offer_change,
        {% for quantity in quantities %}
            {% if quantity.endswith('_code') %}
                sum({{ quantity }}) as {{ quantity }}{{ ',' if not loop.last }}
            {% else %}
                cast(sum({{ quantity }}) as bigint) as {{ quantity }}{{ ',' if not loop.last }}
            {% endif %}
        {% endfor %}
    from events
    group by node_class_number, event_second

),

levels as (

    select
        node_class_number,
        event_second,
        lead(event_second) over (partition by node_class_number order by event_second)
            as next_second,
        sum(offer_change) over node_class as offer_number,
        {% for quantity in quantities %}
            sum({{ quantity }}) over node_class as {{ quantity }}{{ ',' if not loop.last }}
        {% endfor %}
    from instants
    window
        node_class as (
            partition by node_class_number
            order by event_second
            rows between unbounded preceding and current row
        )

),

-- A level holds until the next one, and no longer than its hour is measured.
bounded as (

    select
        levels.node_class_number,
        hours.hour_second,
        levels.event_second as started_second,
        least(
            coalesce(levels.next_second, hours.measured_until_second),
            hours.measured_until_second
        ) as ended_second,
        {% for quantity in quantities %}
            cast(
                levels.{{ quantity }}
                as {{ 'decimal(38, 0)' if quantity.endswith('_code') else 'bigint' }}
            ) as {{ quantity }},
        {% endfor %}
        {% for quantity in offered_quantities() %}
            coalesce(offers.{{ quantity }}, 0) as {{ quantity }}{{ ',' if not loop.last }}
        {% endfor %}
    from levels
    inner join node_classes
        on levels.node_class_number = node_classes.node_class_number
    inner join hours
        on
            node_classes.cluster_id = hours.cluster_id
            and {{ whole_quotient('levels.event_second', 3600) }} * 3600 = hours.hour_second
    left join offers
        on
            levels.node_class_number = offers.node_class_number
            and levels.offer_number = offers.offer_number
    where
        levels.event_second >= hours.measured_from_second
        and levels.event_second < hours.measured_until_second

),

-- The labels count all cards of the node, those that are not cut by MIG among them.
counted as (

    select
        *,
        case
            when labelled_cards > 0 and labelled_cards >= capacity_cards
                then labelled_cards - capacity_cards
            else -1
        end as mig_card_count
    from bounded

)

select * from counted
