with

pieces as (

    select * from {{ ref('int_node_capacity_pieces') }}

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
        capacity_count * compute_units_each as compute_units,
        capacity_count * memory_units_each as memory_units,
        allocatable_count * compute_units_each as allocatable_compute_units,
        allocatable_count * memory_units_each as allocatable_memory_units
    from pieces
    union all
    select
        cluster_id,
        node_name,
        gpu_class,
        card_pool,
        class_compute_unit,
        class_memory_unit,
        ended_second as event_second,
        -capacity_count * compute_units_each as compute_units,
        -capacity_count * memory_units_each as memory_units,
        -allocatable_count * compute_units_each as allocatable_compute_units,
        -allocatable_count * memory_units_each as allocatable_memory_units
    from pieces

),

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
        sum(memory_units) as memory_units,
        sum(allocatable_compute_units) as allocatable_compute_units,
        sum(allocatable_memory_units) as allocatable_memory_units
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
        cluster_id,
        node_name,
        gpu_class,
        card_pool,
        class_compute_unit,
        class_memory_unit,
        event_second,
        sum(compute_units) over pool as compute_level,
        sum(memory_units) over pool as memory_level,
        sum(allocatable_compute_units) over pool as allocatable_compute_level,
        sum(allocatable_memory_units) over pool as allocatable_memory_level
    from instants
    window
        pool as (
            partition by cluster_id, node_name, gpu_class, card_pool
            order by event_second
            rows between unbounded preceding and current row
        )

),

cards as (

    select
        cluster_id,
        node_name,
        gpu_class,
        card_pool,
        event_second,
        {{ fewest_cards(
            'compute_level', 'memory_level', 'class_compute_unit', 'class_memory_unit'
        ) }} as capacity_count,
        {{ fewest_cards(
            'allocatable_compute_level',
            'allocatable_memory_level',
            'class_compute_unit',
            'class_memory_unit'
        ) }} as allocatable_count
    from levels

),

changes as (

    select
        cluster_id,
        node_name,
        event_second,
        capacity_count - coalesce(
            lag(capacity_count) over (
                partition by cluster_id, node_name, gpu_class, card_pool order by event_second
            ),
            0
        ) as capacity_change,
        allocatable_count - coalesce(
            lag(allocatable_count) over (
                partition by cluster_id, node_name, gpu_class, card_pool order by event_second
            ),
            0
        ) as allocatable_change
    from cards

)

select
    cluster_id,
    node_name,
    event_second,
    cast(sum(capacity_change) as bigint) as capacity_change,
    cast(sum(allocatable_change) as bigint) as allocatable_change
from changes
group by cluster_id, node_name, event_second
