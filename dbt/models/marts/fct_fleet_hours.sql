with

cluster_hours as (

    select * from {{ ref('fct_cluster_hours') }}

),

measured_hours as (

    select
        *,
        lead(measured_from_second) over (
            partition by cluster_id order by hour_second
        ) as next_from_second
    from {{ ref('int_measured_hours') }}

),

-- After its measured time, a cluster adds 0 to the fleet.
ends as (

    select
        cluster_id,
        measured_until_second as started_second,
        0 as level
    from measured_hours
    where next_from_second is null or next_from_second <> measured_until_second

),

cluster_levels as (

    select
        cluster_id,
        started_second,
        running_cards
    from {{ ref('int_cluster_card_levels') }}
    union all
    select
        cluster_id,
        started_second,
        level as running_cards
    from ends

),

worker_levels as (

    select
        cluster_id,
        started_second,
        active_workers
    from {{ ref('int_active_worker_levels') }}
    union all
    select
        cluster_id,
        started_second,
        level as active_workers
    from ends

),

-- The level of the fleet is the sum of the changes of all clusters.
changes as (

    select
        started_second as event_second,
        running_cards - lag(running_cards, 1, 0) over (
            partition by cluster_id order by started_second
        ) as running_change,
        0 as worker_change
    from cluster_levels
    union all
    select
        started_second as event_second,
        0 as running_change,
        active_workers - lag(active_workers, 1, 0) over (
            partition by cluster_id order by started_second
        ) as worker_change
    from worker_levels

),

instants as (

    select
        event_second,
        sum(running_change) as running_change,
        sum(worker_change) as worker_change
    from changes
    group by event_second

),

levels as (

    select
        {{ whole_quotient('event_second', 3600) }} * 3600 as hour_second,
        sum(running_change) over fleet as running_cards,
        sum(worker_change) over fleet as active_workers
    from instants
    window fleet as (order by event_second rows between unbounded preceding and current row)

),

simultaneous as (

    select
        {{ instant('hour_second') }} as hour_started_at,
        cast(max(running_cards) as bigint) as simultaneous_max,
        cast(max(active_workers) as bigint) as active_worker_nodes_max
    from levels
    group by hour_second

),

fleet_hours as (

    select
        cluster_hours.billing_period,
        cluster_hours.hour_started_at,
        count(*) as cluster_count,
        cast(sum(cluster_hours.active_worker_nodes) as bigint) as active_worker_nodes,
        max(simultaneous.active_worker_nodes_max) as active_worker_nodes_max,
        cast(sum(cluster_hours.gpu_capacity) as bigint) as gpu_capacity,
        cast(sum(cluster_hours.sum_of_node_max) as bigint) as sum_of_node_max,
        cast(sum(cluster_hours.sum_of_node_max_bound) as bigint) as sum_of_node_max_bound,
        max(simultaneous.simultaneous_max) as simultaneous_max,
        cast(sum(cluster_hours.gpu_seconds) as bigint) as gpu_seconds,
        {{ weakest_how_known('cluster_hours.how_known') }} as how_known,
        max(case when cluster_hours.is_lower_bound then 1 else 0 end) = 1 as is_lower_bound
    from cluster_hours
    inner join simultaneous
        on cluster_hours.hour_started_at = simultaneous.hour_started_at
    group by cluster_hours.billing_period, cluster_hours.hour_started_at

)

select * from fleet_hours
