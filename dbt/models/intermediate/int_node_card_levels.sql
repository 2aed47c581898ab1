with

class_levels as (

    select * from {{ ref('int_node_class_cards') }}

),

-- Nearly all nodes have cards of one class, whose levels are the node's own.
plain as (

    select
        node_number,
        hour_second,
        started_second,
        ended_second,
        running_cards
    from class_levels
    where class_count = 1

),

mixed as (

    select *
    from class_levels
    where class_count > 1

),

changes as (

    select
        node_number,
        hour_second,
        started_second as event_second,
        running_cards - lag(running_cards, 1, 0) over class_hours as running_change
    from mixed
    window
        class_hours as (partition by node_class_number, hour_second order by started_second)

),

-- Every class has a level from the start of a measured hour to its end, so each hour stands alone.
levels as (

    select
        node_number,
        hour_second,
        event_second,
        lead(event_second) over (
            partition by node_number, hour_second order by event_second
        ) as next_second,
        sum(running_change) over so_far as running_cards
    from changes
    window
        so_far as (
            partition by node_number, hour_second
            order by event_second
            range between unbounded preceding and current row
        )

),

hour_ends as (

    select
        node_number,
        hour_second,
        max(ended_second) as measured_until_second
    from mixed
    group by node_number, hour_second

),

summed as (

    select
        levels.node_number,
        levels.hour_second,
        levels.event_second as started_second,
        coalesce(levels.next_second, hour_ends.measured_until_second) as ended_second,
        cast(levels.running_cards as bigint) as running_cards
    from levels
    inner join hour_ends
        on
            levels.node_number = hour_ends.node_number
            and levels.hour_second = hour_ends.hour_second
    where coalesce(levels.next_second, {{ end_of_time() }}) > levels.event_second

)

select * from plain
union all
select * from summed
