with

named as (

    select * from {{ ref('int_devices_named') }}

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
    from named

),

-- Where no telemetry names the devices, their number is all that is known.
counted as (

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
    where nodes_seen.node_name is null and levels.capacity_count > 0
    group by levels.cluster_id, levels.node_name, levels.gpu_class, levels.mig_profile

),

united as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        mig_profile,
        gpu_class,
        model_name,
        cast(1 as bigint) as device_count,
        'telemetry' as how_known,
        first_seen_second,
        last_seen_second
    from named
    union all
    select
        cluster_id,
        node_name,
        '' as device_uuid,
        '' as gpu_index,
        '' as instance_id,
        mig_profile,
        gpu_class,
        '' as model_name,
        device_count,
        'inferred from capacity' as how_known,
        first_seen_second,
        last_seen_second
    from counted

),

devices as (

    select
        parameters.billing_period,
        united.cluster_id,
        united.node_name,
        united.device_uuid,
        united.gpu_index,
        united.instance_id,
        united.gpu_class,
        united.mig_profile,
        united.model_name,
        united.device_count,
        united.how_known,
        {{ instant('united.first_seen_second') }} as first_seen_at,
        {{ instant('united.last_seen_second') }} as last_seen_at
    from united
    cross join parameters

)

select * from devices
