with

use_hours as (

    select
        *,
        {{ each_hour('started_second', 'ended_second') }} as hour_second
    from {{ ref('int_device_use') }}
    where
        allocation_state = 'running'
        and started_second < ended_second
        -- Shares are left out: the card of the shares has its own row.
        and devices_per_card is not null

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

cards as (

    select * from {{ ref('int_allocations_placed_on_cards') }}

),

-- The card of a whole device is known; the card of a slice is known only from telemetry.
card_intervals as (

    select
        node_classes.node_number,
        use_hours.hour_second,
        case when use_hours.devices_per_card = 1 then '' else cards.gpu_index end as gpu_index,
        case when use_hours.devices_per_card = 1 then use_hours.device_count else 1 end
            as card_count,
        use_hours.devices_per_card = 1 or cards.gpu_index is not null as is_known,
        greatest(use_hours.started_second, hours.measured_from_second) as started_second,
        least(use_hours.ended_second, hours.measured_until_second) as ended_second
    from use_hours
    inner join node_classes
        on use_hours.node_class_number = node_classes.node_class_number
    inner join {{ ref('int_sliced_nodes') }} as sliced
        on node_classes.node_number = sliced.node_number
    inner join hours
        on
            node_classes.cluster_id = hours.cluster_id
            and use_hours.hour_second = hours.hour_second
            and use_hours.started_second < hours.measured_until_second
            and hours.measured_from_second < use_hours.ended_second
    left join cards
        on
            use_hours.allocation_number = cards.allocation_number
            and use_hours.devices_per_card <> 1

),

-- A card counts once, also if several of its slices run: overlapping intervals of slices on one
-- card are joined.
slices as (

    select distinct
        node_number,
        hour_second,
        gpu_index,
        started_second,
        ended_second
    from card_intervals
    where gpu_index <> ''

),

ordered_slices as (

    select
        *,
        max(ended_second) over (
            partition by node_number, hour_second, gpu_index
            order by started_second, ended_second
            rows between unbounded preceding and 1 preceding
        ) as reached_second
    from slices

),

numbered_slices as (

    select
        *,
        sum(case when started_second <= reached_second then 0 else 1 end) over (
            partition by node_number, hour_second, gpu_index
            order by started_second, ended_second
            rows between unbounded preceding and current row
        ) as busy_number
    from ordered_slices

),

busy_intervals as (

    select
        node_number,
        hour_second,
        gpu_index,
        card_count,
        is_known,
        started_second,
        ended_second
    from card_intervals
    where gpu_index = '' or gpu_index is null
    union all
    select
        node_number,
        hour_second,
        gpu_index,
        cast(1 as bigint) as card_count,
        true as is_known,
        min(started_second) as started_second,
        max(ended_second) as ended_second
    from numbered_slices
    group by node_number, hour_second, gpu_index, busy_number

),

nodes as (

    select distinct
        node_number,
        cluster_id
    from {{ ref('int_node_classes') }}

),

known_hours as (

    select
        busy_intervals.node_number,
        busy_intervals.hour_second,
        max(hours.measured_from_second) as measured_from_second,
        max(hours.measured_until_second) as measured_until_second
    from busy_intervals
    inner join nodes
        on busy_intervals.node_number = nodes.node_number
    inner join hours
        on
            nodes.cluster_id = hours.cluster_id
            and busy_intervals.hour_second = hours.hour_second
    group by busy_intervals.node_number, busy_intervals.hour_second
    having bool_and(busy_intervals.is_known)

),

-- Each hour is counted alone: use that began before the hour is counted from its start.
events as (

    select
        node_number,
        hour_second,
        started_second as event_second,
        card_count as card_change
    from busy_intervals
    union all
    select
        node_number,
        hour_second,
        ended_second as event_second,
        -card_count as card_change
    from busy_intervals
    union all
    select
        node_number,
        hour_second,
        measured_from_second as event_second,
        0 as card_change
    from known_hours

),

-- All changes of one second are added before the level is read, so that an end and a start in one
-- second do not overlap.
instants as (

    select
        node_number,
        hour_second,
        event_second,
        sum(card_change) as card_change
    from events
    group by node_number, hour_second, event_second

),

levels as (

    select
        instants.node_number,
        instants.hour_second,
        instants.event_second as started_second,
        coalesce(lead(instants.event_second) over so_far, known_hours.measured_until_second)
            as ended_second,
        cast(sum(instants.card_change) over so_far as bigint) as running_cards
    from instants
    inner join known_hours
        on
            instants.node_number = known_hours.node_number
            and instants.hour_second = known_hours.hour_second
    window
        so_far as (
            partition by instants.node_number, instants.hour_second
            order by instants.event_second
        )

)

select *
from levels
where started_second < ended_second
