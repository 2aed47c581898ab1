with

bounds as (

    select * from {{ ref('int_node_levels') }}

),

levels_by_devices as (

    select * from {{ ref('int_node_levels_by_devices') }}

),

known_hours as (

    select distinct
        node_number,
        hour_second
    from levels_by_devices

),

-- The levels of a node and hour all come from one of the two models, and begin at the start of the
-- hour.
node_levels as (

    select
        node_number,
        started_second,
        running_cards
    from levels_by_devices
    union all
    select
        bounds.node_number,
        bounds.started_second,
        bounds.running_cards
    from bounds
    left join known_hours
        on
            bounds.node_number = known_hours.node_number
            and bounds.hour_second = known_hours.hour_second
    where known_hours.node_number is null

),

nodes as (

    select distinct
        node_number,
        cluster_id
    from {{ ref('int_node_classes') }}

),

changes as (

    select
        node_number,
        started_second as event_second,
        running_cards - lag(running_cards, 1, 0) over (
            partition by node_number order by started_second
        ) as running_change
    from node_levels

),

instants as (

    select
        nodes.cluster_id,
        changes.event_second,
        sum(changes.running_change) as running_change
    from changes
    inner join nodes
        on changes.node_number = nodes.node_number
    group by nodes.cluster_id, changes.event_second

),

levels as (

    select
        cluster_id,
        {{ whole_quotient('event_second', 3600) }} * 3600 as hour_second,
        event_second as started_second,
        cast(
            sum(running_change)
                over (
                    partition by cluster_id
                    order by event_second
                    rows between unbounded preceding and current row
                )
            as bigint
        ) as running_cards
    from instants

)

select * from levels
