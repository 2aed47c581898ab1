with

spans as (

    select
        *,
        {{ each_hour('started_second', 'ended_second') }} as hour_second
    from {{ ref('int_device_spans') }}
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
pieces as (

    select
        node_classes.node_number,
        spans.hour_second,
        case when spans.devices_per_card = 1 then '' else cards.gpu_index end as gpu_index,
        case when spans.devices_per_card = 1 then spans.device_count else 1 end as card_count,
        spans.devices_per_card = 1 or cards.gpu_index is not null as is_known,
        greatest(spans.started_second, hours.measured_from_second) as started_second,
        least(spans.ended_second, hours.measured_until_second) as ended_second
    from spans
    inner join node_classes
        on spans.node_class_number = node_classes.node_class_number
    inner join {{ ref('int_sliced_nodes') }} as sliced
        on node_classes.node_number = sliced.node_number
    inner join hours
        on
            node_classes.cluster_id = hours.cluster_id
            and spans.hour_second = hours.hour_second
            and spans.started_second < hours.measured_until_second
            and hours.measured_from_second < spans.ended_second
    left join cards
        on
            spans.allocation_number = cards.allocation_number
            and spans.devices_per_card <> 1

),

-- However many slices of a card run, it is one card; those of one stretch are one from here on.
slices as (

    select distinct
        node_number,
        hour_second,
        gpu_index,
        started_second,
        ended_second
    from pieces
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
    from pieces
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

)

select * from busy
