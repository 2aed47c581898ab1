with

use_intervals as (

    select * from {{ ref('int_device_use') }}

),

offers as (

    select * from {{ ref('int_node_class_capacity') }}

),

-- Replicas and partitions: the number of parts per card gives the smallest number of cards. Whole
-- cards are counted elsewhere.
intervals as (

    select
        node_class_number,
        devices_per_card,
        started_second,
        ended_second,
        device_count as running_count,
        0 as capacity_count,
        0 as allocatable_count
    from use_intervals
    where allocation_state = 'running' and devices_per_card > 1
    union all
    select
        node_class_number,
        devices_per_card,
        started_second,
        ended_second,
        0 as running_count,
        capacity_count,
        allocatable_count
    from offers
    where devices_per_card > 1

),

-- Each interval changes the counts at its start and, by the same number, at its end.
ends as (

    select 1 as change
    union all
    select -1 as change

),

events as (

    select
        intervals.node_class_number,
        intervals.devices_per_card,
        case when ends.change = 1 then intervals.started_second else intervals.ended_second end
            as event_second,
        ends.change * intervals.running_count as running_count,
        ends.change * intervals.capacity_count as capacity_count,
        ends.change * intervals.allocatable_count as allocatable_count
    from intervals
    cross join ends

),

-- All changes of one second are added before the level is read, so that an end and a start in one
-- second do not overlap.
levels as (

    select
        node_class_number,
        devices_per_card,
        event_second,
        sum(running_count) over so_far as running_level,
        sum(capacity_count) over so_far as capacity_level,
        sum(allocatable_count) over so_far as allocatable_level
    from events
    window
        so_far as (
            partition by node_class_number, devices_per_card
            order by event_second
            range between unbounded preceding and current row
        )

),

cards as (

    select
        node_class_number,
        devices_per_card,
        event_second,
        {{ whole_quotient('running_level + devices_per_card - 1', 'devices_per_card') }}
            as running_cards,
        {{ whole_quotient('capacity_level + devices_per_card - 1', 'devices_per_card') }}
            as capacity_cards,
        {{ whole_quotient('allocatable_level + devices_per_card - 1', 'devices_per_card') }}
            as allocatable_cards
    from levels

),

changes as (

    select
        node_class_number,
        event_second,
        running_cards - lag(running_cards, 1, 0) over card_parts as running_change,
        capacity_cards - lag(capacity_cards, 1, 0) over card_parts as capacity_change,
        allocatable_cards - lag(allocatable_cards, 1, 0) over card_parts as allocatable_change
    from cards
    window
        card_parts as (
            partition by node_class_number, devices_per_card
            order by event_second
        )

)

select
    node_class_number,
    event_second,
    cast(sum(running_change) as bigint) as running_change,
    cast(sum(capacity_change) as bigint) as capacity_change,
    cast(sum(allocatable_change) as bigint) as allocatable_change
from changes
group by node_class_number, event_second
