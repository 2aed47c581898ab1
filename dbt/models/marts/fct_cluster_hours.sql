with

node_hours as (

    select * from {{ ref('fct_node_hours') }}

),

levels as (

    select * from {{ ref('int_node_card_levels') }}

),

level_changes as (

    select
        cluster_id,
        started_second as event_second,
        running_cards
        - lag(running_cards, 1, 0) over (partition by cluster_id, node_name order by started_second)
            as card_change
    from levels

),

instants as (

    select
        cluster_id,
        event_second,
        sum(card_change) as card_change
    from level_changes
    group by cluster_id, event_second

),

cluster_levels as (

    select
        cluster_id,
        event_second,
        sum(card_change) over (
            partition by cluster_id
            order by event_second
            rows between unbounded preceding and current row
        ) as card_count
    from instants

),

simultaneous as (

    select
        cluster_id,
        {{ instant(whole_quotient('event_second', 3600) ~ ' * 3600') }} as hour_started_at,
        cast(max(card_count) as bigint) as simultaneous_max
    from cluster_levels
    group by cluster_id, {{ instant(whole_quotient('event_second', 3600) ~ ' * 3600') }}

),

cluster_hours as (

    select
        node_hours.billing_period,
        node_hours.cluster_id,
        node_hours.hour_started_at,
        cast(sum(node_hours.gpu_capacity) as bigint) as gpu_capacity,
        cast(sum(node_hours.gpu_count_max) as bigint) as sum_of_node_max,
        max(simultaneous.simultaneous_max) as simultaneous_max,
        cast(sum(node_hours.gpu_seconds) as bigint) as gpu_seconds
    from node_hours
    inner join simultaneous
        on
            node_hours.cluster_id = simultaneous.cluster_id
            and node_hours.hour_started_at = simultaneous.hour_started_at
    group by node_hours.billing_period, node_hours.cluster_id, node_hours.hour_started_at

)

select * from cluster_hours
