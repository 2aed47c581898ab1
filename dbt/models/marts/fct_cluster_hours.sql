with

nodes as (

    select
        cluster_id,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        sum(gpu_capacity) as gpu_capacity,
        sum(gpu_count_max) as sum_of_node_max,
        sum(gpu_count_max_bound) as sum_of_node_max_bound,
        sum(gpu_seconds) as gpu_seconds,
        {{ weakest_how_known('how_known') }} as how_known,
        max(case when is_lower_bound then 1 else 0 end) as lower_bound
    from {{ ref('fct_node_hours') }}
    group by cluster_id, hour_started_at

),

simultaneous as (

    select
        cluster_id,
        hour_second,
        max(running_cards) as simultaneous_max
    from {{ ref('int_cluster_card_levels') }}
    group by cluster_id, hour_second

),

workers as (

    select
        cluster_id,
        hour_second,
        min_by(active_workers, started_second) as active_worker_nodes,
        max(active_workers) as active_worker_nodes_max
    from {{ ref('int_active_worker_levels') }}
    group by cluster_id, hour_second

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- A measured hour without a node has a row too.
cluster_hours as (

    select
        parameters.billing_period,
        hours.cluster_id,
        {{ instant('hours.hour_second') }} as hour_started_at,
        cast(coalesce(workers.active_worker_nodes, 0) as bigint) as active_worker_nodes,
        cast(coalesce(workers.active_worker_nodes_max, 0) as bigint) as active_worker_nodes_max,
        cast(coalesce(nodes.gpu_capacity, 0) as bigint) as gpu_capacity,
        cast(coalesce(nodes.sum_of_node_max, 0) as bigint) as sum_of_node_max,
        cast(coalesce(nodes.sum_of_node_max_bound, 0) as bigint) as sum_of_node_max_bound,
        cast(coalesce(simultaneous.simultaneous_max, 0) as bigint) as simultaneous_max,
        cast(coalesce(nodes.gpu_seconds, 0) as bigint) as gpu_seconds,
        coalesce(nodes.how_known, 'nothing') as how_known,
        coalesce(nodes.lower_bound, 0) = 1 as is_lower_bound
    from hours
    cross join parameters
    left join nodes
        on
            hours.cluster_id = nodes.cluster_id
            and hours.hour_second = nodes.hour_second
    left join simultaneous
        on
            hours.cluster_id = simultaneous.cluster_id
            and hours.hour_second = simultaneous.hour_second
    left join workers
        on
            hours.cluster_id = workers.cluster_id
            and hours.hour_second = workers.hour_second

)

select * from cluster_hours
