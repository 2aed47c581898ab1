with

events as (

    select * from {{ ref('int_device_events') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

-- All that happens in one second counts at once: what ends and what starts does not overlap.
levels as (

    select
        node_class_number,
        mig_profile,
        event_second,
        lead(event_second) over (
            partition by node_class_number, mig_profile order by event_second
        ) as next_second,
        sum(running_count) over so_far as running_count,
        sum(held_count) over so_far as held_count,
        sum(capacity_count) over so_far as capacity_count,
        sum(allocatable_count) over so_far as allocatable_count
    from events
    window
        so_far as (
            partition by node_class_number, mig_profile
            order by event_second
            range between unbounded preceding and current row
        )

),

bounded as (

    select
        node_classes.cluster_id,
        node_classes.node_name,
        node_classes.gpu_class,
        levels.mig_profile,
        hours.hour_second,
        levels.event_second as started_second,
        least(
            coalesce(levels.next_second, hours.measured_until_second),
            hours.measured_until_second
        ) as ended_second,
        cast(levels.running_count as bigint) as running_count,
        cast(levels.held_count as bigint) as held_count,
        cast(levels.capacity_count as bigint) as capacity_count,
        cast(levels.allocatable_count as bigint) as allocatable_count
    from levels
    inner join node_classes
        on levels.node_class_number = node_classes.node_class_number
    inner join hours
        on
            node_classes.cluster_id = hours.cluster_id
            and {{ whole_quotient('levels.event_second', 3600) }} * 3600 = hours.hour_second
    where
        levels.event_second >= hours.measured_from_second
        and levels.event_second < hours.measured_until_second
        and coalesce(levels.next_second, {{ end_of_time() }}) > levels.event_second

)

select * from bounded
