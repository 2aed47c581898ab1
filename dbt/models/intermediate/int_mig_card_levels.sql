with

node_classes as (

    select node_classes.*
    from {{ ref('int_node_classes') }} as node_classes
    inner join (
        select distinct node_class_number
        from {{ ref('int_device_spans') }}
        where code_multiplier > 0
    ) as cut_by_mig
        on node_classes.node_class_number = cut_by_mig.node_class_number

),

used as (

    select
        node_class_number,
        started_second,
        ended_second,
        case when devices_per_card = 1 then device_count else 0 end as running_cards,
        device_count * code_multiplier as running_code
    from {{ ref('int_device_spans') }}
    where allocation_state = 'running'

),

-- Every use begins and ends.
ends as (

    select 1 as change
    union all
    select -1 as change

),

events as (

    select
        used.node_class_number,
        case when ends.change = 1 then used.started_second else used.ended_second end
            as event_second,
        ends.change * used.running_cards as packed_change,
        ends.change * used.running_code as code_change
    from used
    cross join ends
    union all
    select
        node_class_number,
        event_second,
        running_change as packed_change,
        0 as code_change
    from {{ ref('int_card_changes') }}
    union all
    select
        node_class_number,
        event_second,
        {{ packed(offers='1') }} as packed_change,
        0 as code_change
    from {{ ref('int_node_offer_levels') }}

),

-- At the start of every hour the level carried into it becomes visible.
all_events as (

    select events.*
    from events
    inner join node_classes
        on events.node_class_number = node_classes.node_class_number
    union all
    select
        node_classes.node_class_number,
        changes.event_second,
        {{ packed(measured='changes.measured_change') }} as packed_change,
        0 as code_change
    from node_classes
    inner join {{ ref('int_measured_changes') }} as changes
        on node_classes.cluster_id = changes.cluster_id

),

-- Each day stands by itself: what is carried into it happens in its first second.
{{ day_by_day({'packed_change': 'bigint', 'code_change': 'decimal(38, 0)'}) }},

-- All that happens in one second counts at once: what ends and what starts does not overlap.
levels as (

    select
        node_class_number,
        event_second,
        coalesce(
            lead(event_second) over (partition by class_day order by event_second),
            {{ end_of_day('event_second') }}
        ) as next_second,
        cast(sum(packed_change) over so_far as bigint) as packed_level,
        cast(sum(code_change) over so_far as decimal(38, 0)) as running_code
    from day_events
    window
        so_far as (
            partition by class_day
            order by event_second
            range between unbounded preceding and current row
        )

),

measured as (

    select
        node_class_number,
        {{ packed_offer('packed_level') }} as offer_number,
        {{ whole_quotient('event_second', 3600) }} * 3600 as hour_second,
        event_second as started_second,
        next_second as ended_second,
        {{ packed_cards('packed_level') }} as running_cards,
        running_code
    from levels
    where event_second < next_second and {{ packed_is_measured('packed_level') }}

)

select * from measured
