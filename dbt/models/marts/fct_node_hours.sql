with

levels as (

    select * from {{ ref('int_node_card_levels') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

pools as (

    select
        cluster_id,
        node_name,
        max(case when card_pool = 'card' then 0 else 1 end) as has_shared_cards
    from {{ ref('int_node_pool_changes') }}
    group by cluster_id, node_name

),

hours as (

    select
        cluster_id,
        node_name,
        hour_second,
        max(capacity_count) as gpu_capacity,
        max(allocatable_count) as gpu_allocatable,
        max(card_count) as gpu_count_max,
        cast(sum(card_count * (ended_second - started_second)) as bigint) as gpu_seconds
    from levels
    group by cluster_id, node_name, hour_second

),

node_hours as (

    select
        parameters.billing_period,
        hours.cluster_id,
        hours.node_name,
        {{ instant('hours.hour_second') }} as hour_started_at,
        hours.gpu_capacity,
        hours.gpu_allocatable,
        hours.gpu_count_max,
        hours.gpu_seconds,
        case when coalesce(pools.has_shared_cards, 0) = 0 then 'whole cards' else 'fewest cards' end
            as how_known
    from hours
    cross join parameters
    left join pools
        on
            hours.cluster_id = pools.cluster_id
            and hours.node_name = pools.node_name

)

select * from node_hours
