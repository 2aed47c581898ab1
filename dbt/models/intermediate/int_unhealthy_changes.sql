with

used as (

    select * from {{ ref('int_device_spans') }}

),

offered as (

    select * from {{ ref('int_capacity_spans') }}

),

-- Only resources of which some devices were not allocatable at some time.
suspected as (

    select
        node_class_number,
        resource_key,
        max(compute_units_each) as compute_units_each,
        max(memory_units_each) as memory_units_each
    from offered
    where allocatable_count < capacity_count
    group by node_class_number, resource_key

),

events as (

    select
        node_class_number,
        resource_key,
        started_second as event_second,
        device_count as allocated_count,
        0 as capacity_count,
        0 as allocatable_count
    from used
    union all
    select
        node_class_number,
        resource_key,
        ended_second as event_second,
        -device_count as allocated_count,
        0 as capacity_count,
        0 as allocatable_count
    from used
    union all
    select
        node_class_number,
        resource_key,
        started_second as event_second,
        0 as allocated_count,
        capacity_count,
        allocatable_count
    from offered
    union all
    select
        node_class_number,
        resource_key,
        ended_second as event_second,
        0 as allocated_count,
        -capacity_count as capacity_count,
        -allocatable_count as allocatable_count
    from offered

),

instants as (

    select
        events.node_class_number,
        events.resource_key,
        events.event_second,
        suspected.compute_units_each,
        suspected.memory_units_each,
        sum(events.allocated_count) as allocated_count,
        sum(events.capacity_count) as capacity_count,
        sum(events.allocatable_count) as allocatable_count
    from events
    inner join suspected
        on
            events.node_class_number = suspected.node_class_number
            and events.resource_key = suspected.resource_key
    group by
        events.node_class_number,
        events.resource_key,
        events.event_second,
        suspected.compute_units_each,
        suspected.memory_units_each

),

levels as (

    select
        node_class_number,
        resource_key,
        event_second,
        compute_units_each,
        memory_units_each,
        sum(allocated_count) over resources as allocated_level,
        sum(capacity_count) over resources as capacity_level,
        sum(allocatable_count) over resources as allocatable_level
    from instants
    window
        resources as (
            partition by node_class_number, resource_key
            order by event_second
            rows between unbounded preceding and current row
        )

),

-- An allocated device may be the unhealthy one: it is running, and not counted twice.
unhealthy as (

    select
        node_class_number,
        resource_key,
        event_second,
        compute_units_each,
        memory_units_each,
        greatest(
            least(capacity_level - allocatable_level, capacity_level - allocated_level), 0
        ) as unhealthy_count
    from levels

),

changes as (

    select
        node_class_number,
        event_second,
        compute_units_each,
        memory_units_each,
        unhealthy_count - lag(unhealthy_count, 1, 0) over (
            partition by node_class_number, resource_key order by event_second
        ) as unhealthy_change
    from unhealthy

)

select
    node_class_number,
    event_second,
    cast(sum(unhealthy_change * compute_units_each) as bigint) as compute_units,
    cast(sum(unhealthy_change * memory_units_each) as bigint) as memory_units
from changes
group by node_class_number, event_second
