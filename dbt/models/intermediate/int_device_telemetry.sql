-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{#- Where a reading goes, what it is multiplied by to be a whole number, and whose metric it is. -#}
{% set readings = [
    ('use', 1000000, ['DCGM_FI_PROF_GR_ENGINE_ACTIVE']),
    ('card_use', 10000, ['DCGM_FI_DEV_GPU_UTIL', 'gpu_gfx_activity']),
    ('memory_traffic', 10000, ['DCGM_FI_DEV_MEM_COPY_UTIL', 'gpu_umc_activity']),
    ('sm_active', 1000000, ['DCGM_FI_PROF_SM_ACTIVE']),
    ('sm_occupancy', 1000000, ['DCGM_FI_PROF_SM_OCCUPANCY']),
    ('tensor_active', 1000000, ['DCGM_FI_PROF_PIPE_TENSOR_ACTIVE']),
    ('dram_active', 1000000, ['DCGM_FI_PROF_DRAM_ACTIVE']),
    ('fp64_active', 1000000, ['DCGM_FI_PROF_PIPE_FP64_ACTIVE']),
    ('fp32_active', 1000000, ['DCGM_FI_PROF_PIPE_FP32_ACTIVE']),
    ('fp16_active', 1000000, ['DCGM_FI_PROF_PIPE_FP16_ACTIVE']),
    ('memory_used', 1, ['DCGM_FI_DEV_FB_USED', 'gpu_used_vram']),
    ('power', 1000, ['DCGM_FI_DEV_POWER_USAGE', 'gpu_package_power']),
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
        {{ first_label(['GPU_I_ID', 'gpu_partition_id']) }} as instance_id,
        {{ first_label(['GPU_I_PROFILE']) }} as instance_profile,
        {{ first_label(['modelName', 'card_model']) }} as model_name,
        {{ first_label(['exported_namespace', 'namespace']) }} as namespace,
        {{ first_label(['exported_pod', 'pod']) }} as pod_name
    from {{ ref('stg_thanos__series') }}
    where metric not like 'kube_%' and metric <> 'up'

),

read as (

    select
        telemetry.cluster_id,
        telemetry.hour_second,
        telemetry.metric,
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

-- Readings are shown and never billed: rounded to whole units, so that no fact has a fraction.
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
        cast(max(sample_count) as bigint) as sample_count,
        {% for name, factor, metrics in readings %}
            cast(
                round(
                    max(
                        case
                            when metric in ('{{ metrics | join("', '") }}')
                                then average_reading * {{ factor }}
                        end
                    )
                )
                as bigint
            ) as {{ name }}_average,
            cast(
                round(
                    max(
                        case
                            when metric in ('{{ metrics | join("', '") }}')
                                then maximum_reading * {{ factor }}
                        end
                    )
                )
                as bigint
            ) as {{ name }}_maximum{{ ',' if not loop.last }}
        {% endfor %}
    from read
    where device_uuid <> '' or gpu_index <> ''
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
