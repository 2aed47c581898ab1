with

spans as (

    select * from {{ ref('int_running_spans') }}

),

events as (

    select
        cluster_id,
        node_name,
        gpu_class,
        card_pool,
        class_compute_unit,
        class_memory_unit,
        started_second as event_second,
        compute_units,
        memory_units
    from spans
    union all
    select
        cluster_id,
        node_name,
        gpu_class,
        card_pool,
        class_compute_unit,
        class_memory_unit,
        ended_second as event_second,
        -compute_units as compute_units,
        -memory_units as memory_units
    from spans

),

-- What ends and what starts in the same second does not overlap.
instants as (

    select
        cluster_id,
        node_name,
        gpu_class,
        card_pool,
        class_compute_unit,
        class_memory_unit,
        event_second,
        sum(compute_units) as compute_units,
        sum(memory_units) as memory_units
    from events
    group by
        cluster_id,
        node_name,
        gpu_class,
        card_pool,
        class_compute_unit,
        class_memory_unit,
        event_second

),

levels as (

    select
        *,
        sum(compute_units) over (
            partition by cluster_id, node_name, gpu_class, card_pool
            order by event_second
            rows between unbounded preceding and current row
        ) as compute_level,
        sum(memory_units) over (
            partition by cluster_id, node_name, gpu_class, card_pool
            order by event_second
            rows between unbounded preceding and current row
        ) as memory_level
    from instants

),

-- No layout of the cards needs fewer of them than the larger of the two dimensions.
cards as (

    select
        cluster_id,
        node_name,
        gpu_class,
        card_pool,
        event_second,
        {{ fewest_cards(
            'compute_level', 'memory_level', 'class_compute_unit', 'class_memory_unit'
        ) }} as card_count
    from levels

),

changes as (

    select
        cluster_id,
        node_name,
        gpu_class,
        card_pool,
        event_second,
        card_count - coalesce(
            lag(card_count) over (
                partition by cluster_id, node_name, gpu_class, card_pool order by event_second
            ),
            0
        ) as card_change
    from cards

)

select
    cluster_id,
    node_name,
    gpu_class,
    card_pool,
    event_second,
    cast(card_change as bigint) as card_change
from changes
where card_change <> 0
