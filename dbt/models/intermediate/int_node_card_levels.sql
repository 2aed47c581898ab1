with

running_changes as (

    select
        cluster_id,
        node_name,
        event_second,
        card_change,
        0 as capacity_change,
        0 as allocatable_change
    from {{ ref('int_node_pool_changes') }}

),

capacity_changes as (

    select
        cluster_id,
        node_name,
        event_second,
        0 as card_change,
        capacity_change,
        allocatable_change
    from {{ ref('int_node_capacity_changes') }}

),

changes as (

    select * from running_changes
    union all
    select * from capacity_changes

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

nodes as (

    select distinct
        cluster_id,
        node_name
    from changes

),

-- A change of nothing at the start of every hour makes the level carried into it visible.
events as (

    select * from changes
    union all
    select
        nodes.cluster_id,
        nodes.node_name,
        hours.measured_from_second as event_second,
        0 as card_change,
        0 as capacity_change,
        0 as allocatable_change
    from nodes
    inner join hours
        on nodes.cluster_id = hours.cluster_id

),

instants as (

    select
        cluster_id,
        node_name,
        event_second,
        sum(card_change) as card_change,
        sum(capacity_change) as capacity_change,
        sum(allocatable_change) as allocatable_change
    from events
    group by cluster_id, node_name, event_second

),

levels as (

    select
        cluster_id,
        node_name,
        event_second,
        lead(event_second) over (partition by cluster_id, node_name order by event_second)
            as next_second,
        sum(card_change) over node as card_count,
        sum(capacity_change) over node as capacity_count,
        sum(allocatable_change) over node as allocatable_count
    from instants
    window
        node as (
            partition by cluster_id, node_name
            order by event_second
            rows between unbounded preceding and current row
        )

),

-- A level holds until the next one, and no longer than its hour is measured.
bounded as (

    select
        levels.cluster_id,
        levels.node_name,
        hours.hour_second,
        levels.event_second as started_second,
        least(coalesce(levels.next_second, hours.measured_until_second), hours.measured_until_second)
            as ended_second,
        cast(levels.card_count as bigint) as card_count,
        cast(levels.capacity_count as bigint) as capacity_count,
        cast(levels.allocatable_count as bigint) as allocatable_count
    from levels
    inner join hours
        on
            levels.cluster_id = hours.cluster_id
            and {{ whole_quotient('levels.event_second', 3600) }} * 3600 = hours.hour_second
    where
        levels.event_second >= hours.measured_from_second
        and levels.event_second < hours.measured_until_second

)

select * from bounded
