-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{% set quantities = offered_quantities() %}

with

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

-- Resources with a device that was not allocatable at some time.
partial_resources as (

    select
        node_class_number,
        resource_key,
        max(compute_units_each) as compute_units_each,
        max(memory_units_each) as memory_units_each
    from {{ ref('int_node_class_capacity') }}
    where allocatable_count < capacity_count
    group by node_class_number, resource_key

),

resource_intervals as (

    select
        node_class_number,
        resource_key,
        started_second,
        ended_second,
        device_count as allocated_count,
        0 as capacity_count,
        0 as allocatable_count
    from {{ ref('int_device_use') }}
    union all
    select
        node_class_number,
        resource_key,
        started_second,
        ended_second,
        0 as allocated_count,
        capacity_count,
        allocatable_count
    from {{ ref('int_node_class_capacity') }}

),

-- Each interval changes the counts at its start and, by the same number, at its end.
ends as (

    select 1 as change
    union all
    select -1 as change

),

resource_events as (

    select
        resource_intervals.node_class_number,
        resource_intervals.resource_key,
        case
            when ends.change = 1 then resource_intervals.started_second
            else resource_intervals.ended_second
        end as event_second,
        ends.change * resource_intervals.allocated_count as allocated_count,
        ends.change * resource_intervals.capacity_count as capacity_count,
        ends.change * resource_intervals.allocatable_count as allocatable_count
    from resource_intervals
    inner join partial_resources
        on
            resource_intervals.node_class_number = partial_resources.node_class_number
            and resource_intervals.resource_key = partial_resources.resource_key
    cross join ends

),

resource_levels as (

    select
        node_class_number,
        resource_key,
        event_second,
        sum(allocated_count) over so_far as allocated_level,
        sum(capacity_count) over so_far as capacity_level,
        sum(allocatable_count) over so_far as allocatable_level
    from resource_events
    window
        so_far as (
            partition by node_class_number, resource_key
            order by event_second
            range between unbounded preceding and current row
        )

),

-- An allocated device may be unhealthy. It counts as running, and not also as unhealthy.
unhealthy_devices as (

    select
        node_class_number,
        resource_key,
        event_second,
        greatest(
            least(capacity_level - allocatable_level, capacity_level - allocated_level), 0
        ) as unhealthy_count
    from resource_levels

),

unhealthy_resource_changes as (

    select
        node_class_number,
        resource_key,
        event_second,
        unhealthy_count - lag(unhealthy_count, 1, 0) over (
            partition by node_class_number, resource_key order by event_second
        ) as unhealthy_change
    from unhealthy_devices

),

unhealthy_changes as (

    select
        changes.node_class_number,
        changes.event_second,
        cast(sum(changes.unhealthy_change * partial_resources.compute_units_each) as bigint)
            as compute_units,
        cast(sum(changes.unhealthy_change * partial_resources.memory_units_each) as bigint)
            as memory_units
    from unhealthy_resource_changes as changes
    inner join partial_resources
        on
            changes.node_class_number = partial_resources.node_class_number
            and changes.resource_key = partial_resources.resource_key
    group by changes.node_class_number, changes.event_second

),

-- The devices of a class in the capacity of a node, by interval. Only whole cards count as cards
-- here.
offer_intervals as (

    select
        node_class_number,
        started_second,
        ended_second,
        {{ quantity_columns(quantities, {
            'capacity_cards': 'case when devices_per_card = 1 then capacity_count else 0 end',
            'allocatable_cards': 'case when devices_per_card = 1 then allocatable_count else 0 end',
            'offered_compute': 'capacity_count * compute_units_each',
            'offered_memory': 'capacity_count * memory_units_each',
        }) }}
    from {{ ref('int_node_class_capacity') }}
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
    from {{ ref('int_unmeasured_intervals') }} as unmeasured
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
        from offer_intervals
        union all
    {% endfor %}
    -- Before the first known capacity of a class, its offer is 0, so that every instant has an
    -- offer.
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
    from {{ ref('int_shared_card_changes') }}
    where capacity_change <> 0 or allocatable_change <> 0
    union all
    select
        node_class_number,
        event_second,
        {{ quantity_columns(quantities, {
            'unhealthy_compute': 'compute_units',
            'unhealthy_memory': 'memory_units',
        }) }}
    from unhealthy_changes
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
                as bigint
            ) as {{ quantity }}{{ ',' if not loop.last }}
        {% endfor %}
    from instants

)

select * from levels
