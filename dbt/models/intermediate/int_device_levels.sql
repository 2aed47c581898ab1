with

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

intervals as (

    select
        node_class_number,
        mig_profile,
        started_second,
        ended_second,
        case when allocation_state = 'running' then device_count else 0 end as running_count,
        case when allocation_state = 'held' then device_count else 0 end as held_count,
        0 as capacity_count,
        0 as allocatable_count
    from {{ ref('int_device_use') }}
    union all
    select
        node_class_number,
        mig_profile,
        started_second,
        ended_second,
        0 as running_count,
        0 as held_count,
        capacity_count,
        allocatable_count
    from {{ ref('int_node_class_capacity') }}

),

profiles as (

    select distinct
        node_class_number,
        mig_profile
    from intervals

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
        intervals.mig_profile,
        case when ends.change = 1 then intervals.started_second else intervals.ended_second end
            as event_second,
        ends.change * intervals.running_count as running_count,
        ends.change * intervals.held_count as held_count,
        ends.change * intervals.capacity_count as capacity_count,
        ends.change * intervals.allocatable_count as allocatable_count
    from intervals
    cross join ends
    union all
    -- A change by 0 at the start of each hour gives the hour a row with the level at its start.
    select
        profiles.node_class_number,
        profiles.mig_profile,
        hours.measured_from_second as event_second,
        0 as running_count,
        0 as held_count,
        0 as capacity_count,
        0 as allocatable_count
    from profiles
    inner join node_classes
        on profiles.node_class_number = node_classes.node_class_number
    inner join hours
        on node_classes.cluster_id = hours.cluster_id

),

-- All changes of one second are added before the level is read, so that an end and a start in one
-- second do not overlap.
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

level_intervals as (

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

select * from level_intervals
