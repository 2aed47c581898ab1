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

-- Each day stands by itself, as in int_whole_card_levels.
days as (

    select
        node_class_number,
        {{ day_number('event_second') }} as day_number,
        sum(packed_change) as packed_change,
        sum(code_change) as code_change
    from all_events
    group by node_class_number, {{ day_number('event_second') }}

),

carried as (

    select
        node_class_number,
        day_number * 86400 as event_second,
        cast(coalesce(sum(packed_change) over days_before, 0) as bigint) as packed_change,
        cast(coalesce(sum(code_change) over days_before, 0) as decimal(38, 0)) as code_change
    from days
    window
        days_before as (
            partition by node_class_number
            order by day_number
            rows between unbounded preceding and 1 preceding
        )

),

day_events as (

    select
        *,
        {{ class_day('node_class_number', 'event_second') }} as class_day
    from all_events
    union all
    select
        *,
        {{ class_day('node_class_number', 'event_second') }} as class_day
    from carried

),

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
