with

used as (

    select
        *,
        {{ each_hour('started_second', 'ended_second') }} as hour_second
    from {{ ref('int_device_use') }}
    where
        allocation_state = 'running'
        and started_second < ended_second
        -- Of shares the card is a row of its own.
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

-- A whole card is its own evidence; of a slice, telemetry has to say on which card it lies.
parts as (

    select
        node_classes.node_number,
        used.hour_second,
        case when used.devices_per_card = 1 then '' else cards.gpu_index end as gpu_index,
        case when used.devices_per_card = 1 then used.device_count else 1 end as card_count,
        used.devices_per_card = 1 or cards.gpu_index is not null as is_known,
        greatest(used.started_second, hours.measured_from_second) as started_second,
        least(used.ended_second, hours.measured_until_second) as ended_second
    from used
    inner join node_classes
        on used.node_class_number = node_classes.node_class_number
    inner join {{ ref('int_sliced_nodes') }} as sliced
        on node_classes.node_number = sliced.node_number
    inner join hours
        on
            node_classes.cluster_id = hours.cluster_id
            and used.hour_second = hours.hour_second
            and used.started_second < hours.measured_until_second
            and hours.measured_from_second < used.ended_second
    left join cards
        on
            used.allocation_number = cards.allocation_number
            and used.devices_per_card <> 1

),

-- However many slices of a card run, it is one card; those of one interval are one from here on.
slices as (

    select distinct
        node_number,
        hour_second,
        gpu_index,
        started_second,
        ended_second
    from parts
    where gpu_index <> ''

),

reached as (

    select
        *,
        max(ended_second) over (
            partition by node_number, hour_second, gpu_index
            order by started_second, ended_second
            rows between unbounded preceding and 1 preceding
        ) as reached_second
    from slices

),

numbered as (

    select
        *,
        sum(case when started_second <= reached_second then 0 else 1 end) over (
            partition by node_number, hour_second, gpu_index
            order by started_second, ended_second
            rows between unbounded preceding and current row
        ) as busy_number
    from reached

),

busy as (

    select
        node_number,
        hour_second,
        gpu_index,
        card_count,
        is_known,
        started_second,
        ended_second
    from parts
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
    from numbered
    group by node_number, hour_second, gpu_index, busy_number

),

nodes as (

    select distinct
        node_number,
        cluster_id
    from {{ ref('int_node_classes') }}

),

known as (

    select
        busy.node_number,
        busy.hour_second,
        max(hours.measured_from_second) as measured_from_second,
        max(hours.measured_until_second) as measured_until_second
    from busy
    inner join nodes
        on busy.node_number = nodes.node_number
    inner join hours
        on
            nodes.cluster_id = hours.cluster_id
            and busy.hour_second = hours.hour_second
    group by busy.node_number, busy.hour_second
    having bool_and(busy.is_known)

),

-- Each hour is counted alone: a use that continues is counted from the hour's start.
events as (

    select
        node_number,
        hour_second,
        started_second as event_second,
        card_count as card_change
    from busy
    union all
    select
        node_number,
        hour_second,
        ended_second as event_second,
        -card_count as card_change
    from busy
    union all
    select
        node_number,
        hour_second,
        measured_from_second as event_second,
        0 as card_change
    from known

),

-- An end and a start in one second do not overlap.
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
        coalesce(lead(instants.event_second) over so_far, known.measured_until_second)
            as ended_second,
        cast(sum(instants.card_change) over so_far as bigint) as running_cards
    from instants
    inner join known
        on
            instants.node_number = known.node_number
            and instants.hour_second = known.hour_second
    window
        so_far as (
            partition by instants.node_number, instants.hour_second
            order by instants.event_second
        )

)

select *
from levels
where started_second < ended_second
