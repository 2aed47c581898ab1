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

identified as (

    select *
    from series
    where device_uuid <> '' or gpu_index <> ''

),

-- A number takes less memory than seven names: it numbers devices, and devices with the pod that
-- they are attributed to, within this model only.
holders as (

    select
        *,
        dense_rank() over (
            order by cluster_id, node_name, device_uuid, gpu_index, instance_id
        ) as device_number,
        row_number() over (
            order by
                cluster_id,
                node_name,
                device_uuid,
                gpu_index,
                instance_id,
                namespace,
                pod_name
        ) as holder_number
    from (
        select distinct
            cluster_id,
            node_name,
            device_uuid,
            gpu_index,
            instance_id,
            namespace,
            pod_name
        from identified
    ) as distinct_holders

),

-- The largest of some texts is not kept as a text: DuckDB cannot write such results to disk.
profiles as (

    select
        instance_profile,
        row_number() over (order by instance_profile) as profile_number
    from (select distinct instance_profile from identified) as distinct_profiles

),

models as (

    select
        model_name,
        row_number() over (order by model_name) as model_number
    from (select distinct model_name from identified) as distinct_models

),

numbered as (

    select
        identified.cluster_id,
        identified.series_key,
        profiles.profile_number,
        models.model_number,
        holders.device_number,
        holders.holder_number
    from identified
    inner join holders
        on
            identified.cluster_id = holders.cluster_id
            and identified.node_name = holders.node_name
            and identified.device_uuid = holders.device_uuid
            and identified.gpu_index = holders.gpu_index
            and identified.instance_id = holders.instance_id
            and identified.namespace = holders.namespace
            and identified.pod_name = holders.pod_name
    inner join profiles
        on identified.instance_profile = profiles.instance_profile
    inner join models
        on identified.model_name = models.model_name

),

-- DCGM 4.7 renamed its fields. In the hour of an exporter's upgrade, a reading has both names. First
-- the few devices that have both at any time, then their hours.
renamed as (

    select
        numbered.device_number,
        names.reading
    from (
        select distinct
            cluster_id,
            series_key,
            metric,
            reading
        from {{ ref('stg_thanos__device_telemetry') }}
        where reading <> ''
    ) as names
    inner join numbered
        on
            names.cluster_id = numbered.cluster_id
            and names.series_key = numbered.series_key
    group by numbered.device_number, names.reading
    having min(names.metric) <> max(names.metric)

),

renamed_hours as (

    select
        renamed.device_number,
        renamed.reading,
        telemetry.hour_second
    from {{ ref('stg_thanos__device_telemetry') }} as telemetry
    inner join attempts
        on
            telemetry.cluster_id = attempts.cluster_id
            and telemetry.attempt_id = attempts.attempt_id
            and telemetry.hour_second = attempts.hour_second
    inner join numbered
        on
            telemetry.cluster_id = numbered.cluster_id
            and telemetry.series_key = numbered.series_key
    inner join renamed
        on
            numbered.device_number = renamed.device_number
            and telemetry.reading = renamed.reading
    group by renamed.device_number, renamed.reading, telemetry.hour_second
    having min(telemetry.metric) <> max(telemetry.metric)

),

device_readings as (

    select
        numbered.holder_number,
        numbered.profile_number,
        numbered.model_number,
        telemetry.hour_second,
        telemetry.reading,
        telemetry.sample_count,
        telemetry.average_reading,
        telemetry.maximum_reading,
        renamed_hours.device_number is not null as has_two_names
    from {{ ref('stg_thanos__device_telemetry') }} as telemetry
    inner join attempts
        on
            telemetry.cluster_id = attempts.cluster_id
            and telemetry.attempt_id = attempts.attempt_id
            and telemetry.hour_second = attempts.hour_second
    inner join numbered
        on
            telemetry.cluster_id = numbered.cluster_id
            and telemetry.series_key = numbered.series_key
    left join renamed_hours
        on
            numbered.device_number = renamed_hours.device_number
            and telemetry.hour_second = renamed_hours.hour_second
            and telemetry.reading = renamed_hours.reading

),

-- Readings never decide an amount. They are rounded to whole units, so that no fact has a fraction.
devices as (

    select
        holder_number,
        hour_second,
        max(profile_number) as profile_number,
        max(model_number) as model_number,
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
            max(
                case
                    when reading = '{{ name }}'
                        then cast(round(maximum_reading * {{ factor }}) as bigint)
                end
            ) as {{ name }}_maximum{{ ',' if not loop.last }}
        {% endfor %}
    from device_readings
    group by holder_number, hour_second

)

select
    holders.cluster_id,
    holders.node_name,
    holders.device_uuid,
    holders.gpu_index,
    holders.instance_id,
    profiles.instance_profile,
    models.model_name,
    holders.namespace,
    holders.pod_name,
    devices.hour_second,
    devices.sample_count,
    devices.has_two_names,
    {% for name, factor in readings %}
        devices.{{ name }}_average,
        devices.{{ name }}_maximum{{ ',' if not loop.last }}
    {% endfor %}
from devices
inner join holders
    on devices.holder_number = holders.holder_number
inner join profiles
    on devices.profile_number = profiles.profile_number
inner join models
    on devices.model_number = models.model_number
