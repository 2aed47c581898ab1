with

allocations as (

    select * from {{ ref('int_allocations') }}

),

capacity as (

    select * from {{ ref('int_node_capacity') }}

),

labelled_cards as (

    select * from {{ ref('int_node_labelled_cards') }}

),

used_classes as (

    select
        cluster_id,
        node_name,
        gpu_class,
        class_compute_unit,
        class_memory_unit
    from allocations
    where node_name <> ''
    union
    select
        cluster_id,
        node_name,
        gpu_class,
        class_compute_unit,
        class_memory_unit
    from capacity

),

-- The labels of a node may count cards that are in no resource, so that no share of them is known.
known_classes as (

    select * from used_classes
    union
    select
        labelled_cards.cluster_id,
        labelled_cards.node_name,
        labelled_cards.gpu_class,
        cast(1 as bigint) as class_compute_unit,
        cast(1 as bigint) as class_memory_unit
    from labelled_cards
    left join used_classes
        on
            labelled_cards.cluster_id = used_classes.cluster_id
            and labelled_cards.node_name = used_classes.node_name
            and labelled_cards.gpu_class = used_classes.gpu_class
    where used_classes.cluster_id is null

),

numbered_classes as (

    select
        row_number() over (order by cluster_id, node_name, gpu_class) as node_class_number,
        dense_rank() over (order by cluster_id, node_name) as node_number,
        count(*) over (partition by cluster_id, node_name) as class_count,
        cluster_id,
        node_name,
        gpu_class,
        class_compute_unit,
        class_memory_unit
    from known_classes

)

select * from numbered_classes
