with

node_levels as (

    select * from {{ ref('int_node_card_levels') }}

),

changes as (

    select
        cluster_id,
        started_second as event_second,
        running_cards - lag(running_cards, 1, 0) over (
            partition by cluster_id, node_name order by started_second
        ) as running_change
    from node_levels

),

instants as (

    select
        cluster_id,
        event_second,
        sum(running_change) as running_change
    from changes
    group by cluster_id, event_second

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
