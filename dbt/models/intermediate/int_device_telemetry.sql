-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{#- Readings, and how many whole units one of them is: millionths, bytes/s, MiB, mW,
    m°C. -#}
{% set readings = [
    ('use', 1000000),
    ('card_use', 1000000),
    ('memory_traffic', 1000000),
    ('sm_active', 1000000),
    ('sm_occupancy', 1000000),
    ('tensor_active', 1000000),
    ('dram_active', 1000000),
    ('fp64_active', 1000000),
    ('fp32_active', 1000000),
    ('fp16_active', 1000000),
    ('pcie_sent', 1),
    ('pcie_received', 1),
    ('nvlink_sent', 1),
    ('nvlink_received', 1),
    ('memory_used', 1),
    ('power', 1000),
    ('temperature', 1000),
] %}

with

telemetry as (

    select * from {{ ref('stg_thanos__device_telemetry') }}

),

attempts as (

    select *
    from {{ ref('int_attempts_used') }}
    where source = 'thanos'

),

series as (

    select distinct
        cluster_id,
        series_key,
        {{ first_label(['Hostname', 'hostname', 'node']) }} as node_name,
        {{ first_label(['UUID', 'uuid', 'gpu_uuid', 'serial_number']) }} as device_uuid,
        {{ first_label(['gpu', 'gpu_id']) }} as gpu_index,
        {{ first_label(['GPU_I_ID', 'gpu_partition_id', 'partition']) }} as instance_id,
        {{ first_label(['GPU_I_PROFILE']) }} as instance_profile,
        {{ first_label(['modelName', 'card_model', 'product']) }} as model_name,
        {{ first_label(['exported_namespace', 'namespace']) }} as namespace,
        {{ first_label(['exported_pod', 'pod']) }} as pod_name
    from {{ ref('stg_thanos__series') }}
    where metric not like 'kube_%' and metric <> 'up'

),

series_readings as (

    select
        telemetry.cluster_id,
        telemetry.hour_second,
        telemetry.metric,
        telemetry.reading,
        telemetry.sample_count,
        telemetry.average_reading,
        telemetry.maximum_reading,
        series.node_name,
        series.device_uuid,
        series.gpu_index,
        series.instance_id,
        series.instance_profile,
        series.model_name,
        series.namespace,
        series.pod_name
    from telemetry
    inner join attempts
        on
            telemetry.cluster_id = attempts.cluster_id
            and telemetry.attempt_id = attempts.attempt_id
            and telemetry.hour_second = attempts.hour_second
    inner join series
        on
            telemetry.cluster_id = series.cluster_id
            and telemetry.series_key = series.series_key

),

-- DCGM 4.7 renamed its fields. In the hour of an exporter's upgrade, a reading has both names.
device_readings as (

    select
        *,
        min(metric) over readings <> max(metric) over readings and reading <> '' as has_two_names
    from series_readings
    where device_uuid <> '' or gpu_index <> ''
    window
        readings as (
            partition by
                cluster_id, node_name, device_uuid, gpu_index, instance_id, hour_second, reading
        )

),

-- Readings never decide an amount. They are rounded to whole units, so that no fact has a fraction.
devices as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        max(instance_profile) as instance_profile,
        max(model_name) as model_name,
        namespace,
        pod_name,
        hour_second,
        -- The larger count, not the sum of both names: two exporters have two samples of each
        -- instant.
        cast(max(sample_count) as bigint) as sample_count,
        max(case when has_two_names then 1 else 0 end) = 1 as has_two_names,
        {% for name, factor in readings %}
            cast(
                {{ whole_quotient(
                    "sum(case when reading = '" ~ name ~ "' then cast(round(average_reading * "
                    ~ factor ~ ") as bigint) * sample_count end)",
                    "nullif(sum(case when reading = '" ~ name
                    ~ "' and average_reading is not null then sample_count end), 0)"
                ) }}
                as bigint
            ) as {{ name }}_average,
            cast(
                round(max(case when reading = '{{ name }}' then maximum_reading * {{ factor }} end))
                as bigint
            ) as {{ name }}_maximum{{ ',' if not loop.last }}
        {% endfor %}
    from device_readings
    group by
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        namespace,
        pod_name,
        hour_second

)

select * from devices
