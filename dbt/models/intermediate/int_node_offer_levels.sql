-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{% set quantities = offered_quantities() %}

with

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

-- What a node has of a class for some time. Whole cards are counted as they are.
spans as (

    select
        node_class_number,
        started_second,
        ended_second,
        {{ quantity_columns(quantities, {
            'capacity_cards': 'case when devices_per_card = 1 then capacity_count else 0 end',
            'allocatable_cards': 'case when devices_per_card = 1 then allocatable_count else 0 end',
            'offered_code': 'capacity_count * code_multiplier',
            'allocatable_code': 'allocatable_count * code_multiplier',
            'offered_compute': 'capacity_count * compute_units_each',
            'offered_memory': 'capacity_count * memory_units_each',
        }) }}
    from {{ ref('int_capacity_spans') }}
    union all
    select
        node_classes.node_class_number,
        labelled.started_second,
        labelled.ended_second,
        {{ quantity_columns(quantities, {'labelled_cards': 'labelled.labelled_card_count'}) }}
    from {{ ref('int_node_labelled_cards') }} as labelled
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
        {{ quantity_columns(quantities, {'unmeasured': '1'}) }}
    from {{ ref('int_unmeasured_stretches') }} as unmeasured
    inner join node_classes
        on unmeasured.cluster_id = node_classes.cluster_id

),

events as (

    {% for second, sign in [('started_second', ''), ('ended_second', '-')] %}
        select
            node_class_number,
            {{ second }} as event_second,
            {% for quantity in quantities %}
                {{ sign }}{{ quantity }} as {{ quantity }}{{ ',' if not loop.last }}
            {% endfor %}
        from spans
        union all
    {% endfor %}
    -- Before anything is known to be offered, nothing is: every instant has its offer.
    select
        node_class_number,
        0 as event_second,
        {{ quantity_columns(quantities, {}) }}
    from node_classes
    union all
    select
        node_class_number,
        event_second,
        {{ quantity_columns(quantities, {
            'capacity_cards': 'capacity_change',
            'allocatable_cards': 'allocatable_change',
        }) }}
    from {{ ref('int_card_changes') }}
    where capacity_change <> 0 or allocatable_change <> 0
    union all
    select
        node_class_number,
        event_second,
        {{ quantity_columns(quantities, {
            'unhealthy_compute': 'compute_units',
            'unhealthy_memory': 'memory_units',
        }) }}
    from {{ ref('int_unhealthy_changes') }}
    where compute_units <> 0 or memory_units <> 0

),

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
        row_number() over (partition by node_class_number order by event_second) as offer_number,
        {% for quantity in quantities %}
            cast(
                sum({{ quantity }}) over (
                    partition by node_class_number
                    order by event_second
                    rows between unbounded preceding and current row
                )
                as {{ 'decimal(38, 0)' if quantity.endswith('_code') else 'bigint' }}
            ) as {{ quantity }}{{ ',' if not loop.last }}
        {% endfor %}
    from instants

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
    from levels

)

select * from counted
