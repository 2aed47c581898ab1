with

allocations as (

    select * from {{ ref('int_allocations') }}

),

capacity as (

    select * from {{ ref('int_node_capacity') }}

),

labelled as (

    select * from {{ ref('int_node_labelled_cards') }}

),

used as (

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

-- A node may have cards by its labels of which nothing is offered, and nothing is known yet.
known as (

    select * from used
    union
    select
        labelled.cluster_id,
        labelled.node_name,
        labelled.gpu_class,
        cast(1 as bigint) as class_compute_unit,
        cast(1 as bigint) as class_memory_unit
    from labelled
    left join used
        on
            labelled.cluster_id = used.cluster_id
            and labelled.node_name = used.node_name
            and labelled.gpu_class = used.gpu_class
    where used.cluster_id is null

),

numbered as (

    select
        row_number() over (order by cluster_id, node_name, gpu_class) as node_class_number,
        dense_rank() over (order by cluster_id, node_name) as node_number,
        count(*) over (partition by cluster_id, node_name) as class_count,
        cluster_id,
        node_name,
        gpu_class,
        class_compute_unit,
        class_memory_unit
    from known

)

select * from numbered
