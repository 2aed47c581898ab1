with

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

slice_levels as (

    select * from {{ ref('int_slices_placed') }}

),

sliced_classes as (

    select distinct node_class_number
    from slice_levels

),

-- In a class with MIG slices, the placement counts all cards, also cards without slices.
placed_hours as (

    select
        node_class_number,
        started_second,
        ended_second,
        running_cards,
        running_cut_cards,
        {{ each_hour('started_second', 'ended_second') }} as hour_second
    from (
        select
            slice_levels.node_class_number,
            slice_levels.running_cards,
            slice_levels.running_cut_cards,
            greatest(slice_levels.started_second, parameters.period_started_second)
                as started_second,
            least(slice_levels.ended_second, parameters.period_ended_second) as ended_second
        from slice_levels
        cross join {{ ref('stg_parameters') }} as parameters
        where
            slice_levels.started_second < parameters.period_ended_second
            and slice_levels.ended_second > parameters.period_started_second
    ) as of_period

),

class_levels as (

    select
        class_use.node_class_number,
        class_use.hour_second,
        class_use.started_second,
        class_use.ended_second,
        class_use.running_cards,
        case when class_use.running_cards > 0 then 'capacity' else 'nothing' end as how_known
    from {{ ref('int_node_class_use') }} as class_use
    left join sliced_classes
        on class_use.node_class_number = sliced_classes.node_class_number
    where sliced_classes.node_class_number is null
    union all
    select
        placed_hours.node_class_number,
        placed_hours.hour_second,
        greatest(placed_hours.started_second, hours.measured_from_second) as started_second,
        least(placed_hours.ended_second, hours.measured_until_second) as ended_second,
        placed_hours.running_cards,
        case
            when placed_hours.running_cut_cards > 0 then 'layouts'
            when placed_hours.running_cards > 0 then 'capacity'
            else 'nothing'
        end as how_known
    from placed_hours
    inner join node_classes
        on placed_hours.node_class_number = node_classes.node_class_number
    inner join hours
        on
            node_classes.cluster_id = hours.cluster_id
            and placed_hours.hour_second = hours.hour_second
            and placed_hours.started_second < hours.measured_until_second
            and placed_hours.ended_second > hours.measured_from_second

),

numbered_levels as (

    select
        class_levels.*,
        node_classes.node_number,
        node_classes.class_count
    from class_levels
    inner join node_classes
        on class_levels.node_class_number = node_classes.node_class_number

),

-- Nearly all nodes have cards of only one class. The levels of the class are then those of the
-- node.
one_class_levels as (

    select
        node_number,
        hour_second,
        started_second,
        ended_second,
        running_cards,
        how_known
    from numbered_levels
    where class_count = 1

),

mixed_node_levels as (

    select *
    from numbered_levels
    where class_count > 1

),

changes as (

    select
        node_number,
        hour_second,
        started_second as event_second,
        running_cards - lag(running_cards, 1, 0) over class_hours as running_change
    from mixed_node_levels
    window
        class_hours as (partition by node_class_number, hour_second order by started_second)

),

-- Each class has a level from the start to the end of a measured hour, so that each hour is summed
-- alone.
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
        max(ended_second) as measured_until_second,
        {{ weakest_how_known('how_known') }} as how_known
    from mixed_node_levels
    group by node_number, hour_second

),

summed_levels as (

    select
        levels.node_number,
        levels.hour_second,
        levels.event_second as started_second,
        coalesce(levels.next_second, hour_ends.measured_until_second) as ended_second,
        cast(levels.running_cards as bigint) as running_cards,
        hour_ends.how_known
    from levels
    inner join hour_ends
        on
            levels.node_number = hour_ends.node_number
            and levels.hour_second = hour_ends.hour_second
    where coalesce(levels.next_second, {{ end_of_time() }}) > levels.event_second

)

select * from one_class_levels
union all
select * from summed_levels
