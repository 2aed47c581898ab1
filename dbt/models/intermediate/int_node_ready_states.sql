{{ config(materialized='ephemeral') }}

with

nodes as (

    select * from {{ ref('stg_kubernetes__nodes') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

sampled as (

    select * from {{ ref('int_sampled_ready_nodes') }}

),

journal as (

    select
        nodes.cluster_id,
        nodes.node_name,
        nodes.observed_second,
        nodes.journal_position,
        nodes.is_ready and not nodes.is_deleted as is_ready,
        {{ list_contains('nodes.node_roles', 'worker') }} as is_worker,
        'kubernetes' as source
    from nodes
    inner join attempts
        on
            nodes.cluster_id = attempts.cluster_id
            and nodes.attempt_id = attempts.attempt_id

),

observed as (

    select * from journal
    union all
    select
        cluster_id,
        node_name,
        observed_second,
        cast(0 as bigint) as journal_position,
        is_ready,
        is_worker,
        'thanos' as source
    from sampled

),

-- The journal sees a change when it happens, samples see it with the next scrape.
ranked as (

    select
        *,
        min(source) over (partition by cluster_id, node_name) as best_source
    from observed

),

last_of_second as (

    select
        *,
        row_number() over (
            partition by cluster_id, node_name, observed_second
            order by journal_position desc, is_ready desc
        ) as recency
    from ranked
    where source = best_source

),

changes as (

    select
        cluster_id,
        node_name,
        observed_second,
        is_ready and is_worker as is_active,
        lag(is_ready and is_worker) over (
            partition by cluster_id, node_name order by observed_second
        ) as was_active
    from last_of_second
    where recency = 1

),

-- Before a node was first seen, it was not there.
states as (

    select
        cluster_id,
        node_name,
        is_active,
        observed_second as started_second,
        coalesce(
            lead(observed_second) over (
                partition by cluster_id, node_name order by observed_second
            ),
            {{ end_of_time() }}
        ) as ended_second
    from changes
    where was_active is null or was_active <> is_active

)

select
    cluster_id,
    node_name,
    started_second,
    ended_second
from states
where is_active
