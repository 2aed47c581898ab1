with

class_levels as (

    select * from {{ ref('int_node_class_cards') }}

),

-- Nearly all nodes have cards of one class, whose levels are the node's own.
mixed_nodes as (

    select
        cluster_id,
        node_name
    from {{ ref('int_node_classes') }}
    group by cluster_id, node_name
    having count(*) > 1

),

changes as (

    select
        class_levels.cluster_id,
        class_levels.node_name,
        class_levels.started_second as event_second,
        class_levels.running_cards
        - lag(class_levels.running_cards, 1, 0) over classes as running_change,
        class_levels.installed_cards
        - lag(class_levels.installed_cards, 1, 0) over classes as installed_change,
        class_levels.allocatable_cards
        - lag(class_levels.allocatable_cards, 1, 0) over classes as allocatable_change
    from class_levels
    inner join mixed_nodes
        on
            class_levels.cluster_id = mixed_nodes.cluster_id
            and class_levels.node_name = mixed_nodes.node_name
    window
        classes as (
            partition by class_levels.node_class_number
            order by class_levels.started_second
        )

),

instants as (

    select
        cluster_id,
        node_name,
        event_second,
        sum(running_change) as running_change,
        sum(installed_change) as installed_change,
        sum(allocatable_change) as allocatable_change
    from changes
    group by cluster_id, node_name, event_second

),

levels as (

    select
        cluster_id,
        node_name,
        event_second,
        lead(event_second) over (partition by cluster_id, node_name order by event_second)
            as next_second,
        sum(running_change) over node as running_cards,
        sum(installed_change) over node as installed_cards,
        sum(allocatable_change) over node as allocatable_cards
    from instants
    window
        node as (
            partition by cluster_id, node_name
            order by event_second
            rows between unbounded preceding and current row
        )

),

bounded as (

    select
        levels.cluster_id,
        levels.node_name,
        hours.hour_second,
        levels.event_second as started_second,
        least(
            coalesce(levels.next_second, hours.measured_until_second),
            hours.measured_until_second
        ) as ended_second,
        cast(levels.running_cards as bigint) as running_cards,
        cast(levels.installed_cards as bigint) as installed_cards,
        cast(levels.allocatable_cards as bigint) as allocatable_cards
    from levels
    inner join {{ ref('int_measured_hours') }} as hours
        on
            levels.cluster_id = hours.cluster_id
            and {{ whole_quotient('levels.event_second', 3600) }} * 3600 = hours.hour_second

),

plain as (

    select
        class_levels.cluster_id,
        class_levels.node_name,
        class_levels.hour_second,
        class_levels.started_second,
        class_levels.ended_second,
        class_levels.running_cards,
        class_levels.installed_cards,
        class_levels.allocatable_cards
    from class_levels
    left join mixed_nodes
        on
            class_levels.cluster_id = mixed_nodes.cluster_id
            and class_levels.node_name = mixed_nodes.node_name
    where mixed_nodes.cluster_id is null

)

select * from plain
union all
select * from bounded
