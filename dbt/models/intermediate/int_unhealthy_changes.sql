{{ config(materialized='ephemeral') }}

with

-- Only resources of which some devices were not allocatable at some time.
suspected as (

    select
        node_class_number,
        resource_key,
        max(compute_units_each) as compute_units_each,
        max(memory_units_each) as memory_units_each
    from {{ ref('int_capacity_spans') }}
    where allocatable_count < capacity_count
    group by node_class_number, resource_key

),

spans as (

    select
        node_class_number,
        resource_key,
        started_second,
        ended_second,
        device_count as allocated_count,
        0 as capacity_count,
        0 as allocatable_count
    from {{ ref('int_device_spans') }}
    union all
    select
        node_class_number,
        resource_key,
        started_second,
        ended_second,
        0 as allocated_count,
        capacity_count,
        allocatable_count
    from {{ ref('int_capacity_spans') }}

),

-- Every span begins and ends: by how much each count changes then.
ends as (

    select 1 as change
    union all
    select -1 as change

),

events as (

    select
        spans.node_class_number,
        spans.resource_key,
        case when ends.change = 1 then spans.started_second else spans.ended_second end
            as event_second,
        ends.change * spans.allocated_count as allocated_count,
        ends.change * spans.capacity_count as capacity_count,
        ends.change * spans.allocatable_count as allocatable_count
    from spans
    inner join suspected
        on
            spans.node_class_number = suspected.node_class_number
            and spans.resource_key = suspected.resource_key
    cross join ends

),

levels as (

    select
        node_class_number,
        resource_key,
        event_second,
        sum(allocated_count) over so_far as allocated_level,
        sum(capacity_count) over so_far as capacity_level,
        sum(allocatable_count) over so_far as allocatable_level
    from events
    window
        so_far as (
            partition by node_class_number, resource_key
            order by event_second
            range between unbounded preceding and current row
        )

),

-- An allocated device may be the unhealthy one: it is running, and not counted twice.
unhealthy as (

    select
        node_class_number,
        resource_key,
        event_second,
        greatest(
            least(capacity_level - allocatable_level, capacity_level - allocated_level), 0
        ) as unhealthy_count
    from levels

),

changes as (

    select
        node_class_number,
        resource_key,
        event_second,
        unhealthy_count - lag(unhealthy_count, 1, 0) over (
            partition by node_class_number, resource_key order by event_second
        ) as unhealthy_change
    from unhealthy

)

select
    changes.node_class_number,
    changes.event_second,
    cast(sum(changes.unhealthy_change * suspected.compute_units_each) as bigint) as compute_units,
    cast(sum(changes.unhealthy_change * suspected.memory_units_each) as bigint) as memory_units
from changes
inner join suspected
    on
        changes.node_class_number = suspected.node_class_number
        and changes.resource_key = suspected.resource_key
group by changes.node_class_number, changes.event_second
