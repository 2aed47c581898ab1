with

telemetry_devices as (

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
    from {{ ref('int_device_telemetry') }}
    group by cluster_id, node_name, device_uuid, gpu_index, instance_id

),

-- Exporters write the product name with spaces, node labels with hyphens or underscores.
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

named_devices as (

    select
        telemetry_devices.cluster_id,
        telemetry_devices.node_name,
        telemetry_devices.device_uuid,
        telemetry_devices.gpu_index,
        telemetry_devices.instance_id,
        case
            when telemetry_devices.mig_profile = '' then 'whole' else telemetry_devices.mig_profile
        end as mig_profile,
        coalesce(products.gpu_class, nodes_of_one_class.gpu_class, '') as gpu_class,
        telemetry_devices.model_name,
        telemetry_devices.first_seen_second,
        telemetry_devices.last_seen_second
    from telemetry_devices
    left join products
        on replace(replace(telemetry_devices.model_name, ' ', '-'), '_', '-') = products.spelled
    left join nodes_of_one_class
        on
            telemetry_devices.cluster_id = nodes_of_one_class.cluster_id
            and telemetry_devices.node_name = nodes_of_one_class.node_name

),

levels as (

    select * from {{ ref('int_device_levels') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

nodes_seen as (

    select distinct
        cluster_id,
        node_name
    from named_devices

),

-- The driver of claimed devices publishes each device with a name.
published_devices as (

    select
        parts.cluster_id,
        parts.node_name,
        parts.resource as device_name,
        parts.gpu_class,
        parts.mig_profile,
        min(greatest(parts.started_second, measured.measured_from_second)) as first_seen_second,
        max(least(parts.ended_second, measured.measured_until_second)) as last_seen_second
    from {{ ref('int_node_capacity') }} as parts
    inner join (
        select distinct
            cluster_id,
            node_name,
            resource_key
        from {{ ref('int_sliced_devices') }}
    ) as sliced
        on
            parts.cluster_id = sliced.cluster_id
            and parts.node_name = sliced.node_name
            and parts.resource_key = sliced.resource_key
    inner join (
        select
            cluster_id,
            min(measured_from_second) as measured_from_second,
            max(measured_until_second) as measured_until_second
        from {{ ref('int_measured_hours') }}
        group by cluster_id
    ) as measured
        on
            parts.cluster_id = measured.cluster_id
            and parts.started_second < measured.measured_until_second
            and measured.measured_from_second < parts.ended_second
    left join nodes_seen
        on
            parts.cluster_id = nodes_seen.cluster_id
            and parts.node_name = nodes_seen.node_name
    where nodes_seen.node_name is null and parts.capacity_count > 0
    group by
        parts.cluster_id,
        parts.node_name,
        parts.resource,
        parts.gpu_class,
        parts.mig_profile

),

-- If no source names the devices of a node, only their number is known.
counted_devices as (

    select
        levels.cluster_id,
        levels.node_name,
        levels.gpu_class,
        levels.mig_profile,
        max(levels.capacity_count) as device_count,
        min(levels.started_second) as first_seen_second,
        max(levels.ended_second) as last_seen_second
    from levels
    left join nodes_seen
        on
            levels.cluster_id = nodes_seen.cluster_id
            and levels.node_name = nodes_seen.node_name
    left join (
        select distinct
            cluster_id,
            node_name,
            gpu_class,
            mig_profile
        from published_devices
    ) as named_by_driver
        on
            levels.cluster_id = named_by_driver.cluster_id
            and levels.node_name = named_by_driver.node_name
            and levels.gpu_class = named_by_driver.gpu_class
            and levels.mig_profile = named_by_driver.mig_profile
    where
        nodes_seen.node_name is null
        and named_by_driver.node_name is null
        and levels.capacity_count > 0
    group by levels.cluster_id, levels.node_name, levels.gpu_class, levels.mig_profile

),

all_devices as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        '' as device_name,
        mig_profile,
        gpu_class,
        model_name,
        cast(1 as bigint) as device_count,
        'telemetry' as how_known,
        first_seen_second,
        last_seen_second
    from named_devices
    union all
    select
        cluster_id,
        node_name,
        '' as device_uuid,
        '' as gpu_index,
        '' as instance_id,
        device_name,
        mig_profile,
        gpu_class,
        '' as model_name,
        cast(1 as bigint) as device_count,
        'resource slice' as how_known,
        first_seen_second,
        last_seen_second
    from published_devices
    union all
    select
        cluster_id,
        node_name,
        '' as device_uuid,
        '' as gpu_index,
        '' as instance_id,
        '' as device_name,
        mig_profile,
        gpu_class,
        '' as model_name,
        device_count,
        'inferred from capacity' as how_known,
        first_seen_second,
        last_seen_second
    from counted_devices

),

devices as (

    select
        parameters.billing_period,
        all_devices.cluster_id,
        all_devices.node_name,
        all_devices.device_uuid,
        all_devices.gpu_index,
        all_devices.instance_id,
        all_devices.device_name,
        all_devices.gpu_class,
        all_devices.mig_profile,
        all_devices.model_name,
        all_devices.device_count,
        all_devices.how_known,
        {{ instant('all_devices.first_seen_second') }} as first_seen_at,
        {{ instant('all_devices.last_seen_second') }} as last_seen_at
    from all_devices
    cross join parameters

)

select * from devices
