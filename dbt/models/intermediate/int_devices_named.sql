{{ config(materialized='ephemeral') }}

with

telemetry as (

    select * from {{ ref('int_device_telemetry') }}

),

seen as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        max(instance_profile) as mig_profile,
        max(model_name) as model_name,
        min(hour_second) as first_seen_second,
        max(hour_second) + 3600 as last_seen_second
    from telemetry
    group by cluster_id, node_name, device_uuid, gpu_index, instance_id

),

-- Exporters write the product with spaces, labels with hyphens or underscores.
products as (

    select
        replace(replace(gpu_product, ' ', '-'), '_', '-') as spelled,
        max(gpu_class) as gpu_class
    from {{ ref('stg_devices__kinds') }}
    where gpu_product <> '' and gpu_class <> ''
    group by replace(replace(gpu_product, ' ', '-'), '_', '-')

),

nodes_of_one_class as (

    select
        cluster_id,
        node_name,
        max(gpu_class) as gpu_class
    from {{ ref('int_node_classes') }}
    where gpu_class <> ''
    group by cluster_id, node_name
    having count(distinct gpu_class) = 1

),

classified as (

    select
        seen.cluster_id,
        seen.node_name,
        seen.device_uuid,
        seen.gpu_index,
        seen.instance_id,
        case when seen.mig_profile = '' then 'whole' else seen.mig_profile end as mig_profile,
        coalesce(products.gpu_class, nodes_of_one_class.gpu_class, '') as gpu_class,
        seen.model_name,
        seen.first_seen_second,
        seen.last_seen_second
    from seen
    left join products
        on replace(replace(seen.model_name, ' ', '-'), '_', '-') = products.spelled
    left join nodes_of_one_class
        on
            seen.cluster_id = nodes_of_one_class.cluster_id
            and seen.node_name = nodes_of_one_class.node_name

)

select * from classified
