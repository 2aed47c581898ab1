with

busy as (

    select * from {{ ref('int_card_hours') }}

),

known as (

    select
        cluster_id,
        node_name,
        hour_second
    from busy
    group by cluster_id, node_name, hour_second
    having bool_and(is_known)

),

events as (

    select
        cluster_id,
        node_name,
        hour_second,
        started_second as event_second,
        card_count as card_change
    from busy
    union all
    select
        cluster_id,
        node_name,
        hour_second,
        ended_second as event_second,
        -card_count as card_change
    from busy

),

-- What ends and what begins at one second do not overlap.
instants as (

    select
        cluster_id,
        node_name,
        hour_second,
        event_second,
        sum(card_change) as card_change
    from events
    group by cluster_id, node_name, hour_second, event_second

),

levels as (

    select
        cluster_id,
        node_name,
        hour_second,
        sum(card_change) over (
            partition by cluster_id, node_name, hour_second
            order by event_second
            rows between unbounded preceding and current row
        ) as card_count
    from instants

),

most as (

    select
        levels.cluster_id,
        levels.node_name,
        levels.hour_second,
        cast(max(levels.card_count) as bigint) as gpu_count_max
    from levels
    inner join known
        on
            levels.cluster_id = known.cluster_id
            and levels.node_name = known.node_name
            and levels.hour_second = known.hour_second
    group by levels.cluster_id, levels.node_name, levels.hour_second

)

select * from most
