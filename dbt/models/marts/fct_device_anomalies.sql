{#- All limits of the three rules; docs/explanation/anomalies.md says why they are so. -#}
{% set history_days = 15 %}
{% set least_hours_of_a_model = 24 %}
{% set idle_millionths = 10000 %}
{% set busy_millionths = 800000 %}
{% set memory_kept_mib = 1024 %}
{% set mad_multiple = 12 %}
{% set temperature_floor = 15000 %}
{% set use_floor = 400000 %}
{% set same_load_millionths = 200000 %}

with

windows as (

    select
        cluster_id,
        {{ whole_quotient('3600', 'max(sample_interval_seconds)') }} as due_sample_count
    from {{ ref('int_cluster_windows') }}
    group by cluster_id

),

-- An hour in which the device changed its pod has one part per pod. A part counts only with at
-- least 90 % of its samples.
device_hours as (

    select
        gpu_use.*,
        mod({{ epoch_seconds('gpu_use.hour_started_at') }}, 86400) as second_of_day
    from {{ ref('fct_gpu_use') }} as gpu_use
    inner join windows
        on gpu_use.cluster_id = windows.cluster_id
    where 10 * gpu_use.sample_count >= 9 * windows.due_sample_count

),

-- Power is a reading of the whole card. For a partitioned card, its first partition has the
-- reading.
partitioned_cards as (

    select distinct
        cluster_id,
        node_name,
        device_uuid
    from device_hours
    where instance_id not in ('', '0')

),

whole_cards as (

    select device_hours.*
    from device_hours
    left join partitioned_cards
        on
            device_hours.cluster_id = partitioned_cards.cluster_id
            and device_hours.node_name = partitioned_cards.node_name
            and device_hours.device_uuid = partitioned_cards.device_uuid
    where
        partitioned_cards.cluster_id is null
        and device_hours.use_millionths_average is not null
        and device_hours.power_milliwatts_average is not null

),

-- The idle and the busy power of a model: medians over the hours of its cards.
model_power as (

    select
        cluster_id,
        model_name,
        {{ median('case when use_millionths_average <= ' ~ idle_millionths
            ~ ' then power_milliwatts_average end') }} as idle_milliwatts,
        {{ median('case when use_millionths_average >= ' ~ busy_millionths
            ~ ' then power_milliwatts_average end') }} as busy_milliwatts,
        count(case when use_millionths_average <= {{ idle_millionths }} then 1 end)
            as idle_hour_count,
        count(case when use_millionths_average >= {{ busy_millionths }} then 1 end)
            as busy_hour_count
    from whole_cards
    group by cluster_id, model_name

),

power_expected as (

    select
        whole_cards.*,
        model_power.idle_hour_count + model_power.busy_hour_count as history_count,
        model_power.idle_milliwatts
        + {{ whole_quotient(
            '(model_power.busy_milliwatts - model_power.idle_milliwatts)'
            ~ ' * least(whole_cards.use_millionths_average, 1000000)', '1000000'
        ) }} as expected,
        {{ whole_quotient(
            '3 * (model_power.busy_milliwatts - model_power.idle_milliwatts)', '4'
        ) }} as deviation_limit
    from whole_cards
    inner join model_power
        on
            whole_cards.cluster_id = model_power.cluster_id
            and whole_cards.model_name = model_power.model_name
    where
        model_power.idle_hour_count >= {{ least_hours_of_a_model }}
        and model_power.busy_hour_count >= {{ least_hours_of_a_model }}
        and model_power.busy_milliwatts > model_power.idle_milliwatts

),

-- If an exporter names no pod at all, a device without a pod name may still have a pod.
naming_clusters as (

    select distinct cluster_id
    from device_hours
    where pod_name <> '' and allocated_seconds > 0

),

memory_kept as (

    select device_hours.*
    from device_hours
    inner join naming_clusters
        on device_hours.cluster_id = naming_clusters.cluster_id
    where
        device_hours.pod_name = ''
        and device_hours.allocated_seconds = 0
        and coalesce(device_hours.use_millionths_maximum, 0) = 0
        and device_hours.memory_used_mib_average > {{ memory_kept_mib }}

),

-- Readings, to be compared with the same hour of other days with the same pod, or without one.
readings as (

    select
        'temperature_millicelsius' as reading,
        device_hours.temperature_millicelsius_average as observed,
        device_hours.*
    from device_hours
    where device_hours.temperature_millicelsius_average is not null
    union all
    select
        'use_millionths' as reading,
        device_hours.use_millionths_average as observed,
        device_hours.*
    from device_hours
    where device_hours.use_millionths_average is not null

),

medians as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        namespace,
        pod_name,
        second_of_day,
        reading,
        {{ median('observed') }} as expected,
        {{ median('use_millionths_average') }} as use_expected,
        count(*) as history_count
    from readings
    group by
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        namespace,
        pod_name,
        second_of_day,
        reading

),

deviations as (

    select
        readings.*,
        medians.expected,
        medians.use_expected,
        medians.history_count
    from readings
    inner join medians
        on
            readings.cluster_id = medians.cluster_id
            and readings.node_name = medians.node_name
            and readings.device_uuid = medians.device_uuid
            and readings.gpu_index = medians.gpu_index
            and readings.instance_id = medians.instance_id
            and readings.namespace = medians.namespace
            and readings.pod_name = medians.pod_name
            and readings.second_of_day = medians.second_of_day
            and readings.reading = medians.reading

),

-- The median absolute deviation: half of the hours differ less from the median.
spreads as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        namespace,
        pod_name,
        second_of_day,
        reading,
        {{ median('abs(observed - expected)') }} as spread
    from deviations
    where history_count >= {{ history_days }}
    group by
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        namespace,
        pod_name,
        second_of_day,
        reading

),

unusual_hours as (

    select
        deviations.*,
        {{ mad_multiple }} * spreads.spread
        + case
            when deviations.reading = 'use_millionths' then {{ use_floor }}
            else {{ temperature_floor }}
        end as deviation_limit
    from deviations
    inner join spreads
        on
            deviations.cluster_id = spreads.cluster_id
            and deviations.node_name = spreads.node_name
            and deviations.device_uuid = spreads.device_uuid
            and deviations.gpu_index = spreads.gpu_index
            and deviations.instance_id = spreads.instance_id
            and deviations.namespace = spreads.namespace
            and deviations.pod_name = spreads.pod_name
            and deviations.second_of_day = spreads.second_of_day
            and deviations.reading = spreads.reading

),

-- Devices with too few days of history for every hour of the day: one row each, at the last hour.
young_devices as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        max(model_name) as model_name,
        max(hour_started_at) as hour_started_at,
        max(history_count) as history_count
    from deviations
    group by cluster_id, node_name, device_uuid, gpu_index, instance_id
    having max(history_count) < {{ history_days }}

),

anomalies as (

    select
        'power_unlike_use' as rule_name,
        'anomaly' as status,
        'power_milliwatts' as reading,
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        model_name,
        hour_started_at,
        namespace,
        pod_name,
        tenant,
        use_millionths_average,
        power_milliwatts_average as observed,
        expected,
        deviation_limit,
        history_count
    from power_expected
    where abs(power_milliwatts_average - expected) > deviation_limit
    union all
    select
        'memory_without_pod' as rule_name,
        'anomaly' as status,
        'memory_used_mib' as reading,
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        model_name,
        hour_started_at,
        namespace,
        pod_name,
        tenant,
        use_millionths_average,
        memory_used_mib_average as observed,
        0 as expected,
        {{ memory_kept_mib }} as deviation_limit,
        0 as history_count
    from memory_kept
    union all
    select
        'unlike_own_history' as rule_name,
        'anomaly' as status,
        reading,
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        model_name,
        hour_started_at,
        namespace,
        pod_name,
        tenant,
        use_millionths_average,
        observed,
        expected,
        deviation_limit,
        history_count
    from unusual_hours
    where
        abs(observed - expected) > deviation_limit
        -- A device that is hotter because it is busier, or that is cooler, is no anomaly.
        and (
            reading = 'use_millionths'
            or (
                observed > expected
                and coalesce(abs(use_millionths_average - use_expected), 0)
                <= {{ same_load_millionths }}
            )
        )
    union all
    select
        'unlike_own_history' as rule_name,
        'not_enough_history' as status,
        '' as reading,
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        model_name,
        hour_started_at,
        '' as namespace,
        '' as pod_name,
        '' as tenant,
        cast(null as bigint) as use_millionths_average,
        cast(null as bigint) as observed,
        cast(null as bigint) as expected,
        cast(null as bigint) as deviation_limit,
        history_count
    from young_devices

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

period_anomalies as (

    select
        parameters.billing_period,
        anomalies.cluster_id,
        anomalies.node_name,
        anomalies.device_uuid,
        anomalies.gpu_index,
        anomalies.instance_id,
        anomalies.model_name,
        anomalies.hour_started_at,
        anomalies.namespace,
        anomalies.pod_name,
        anomalies.tenant,
        anomalies.rule_name,
        anomalies.status,
        anomalies.reading,
        anomalies.use_millionths_average,
        cast(anomalies.observed as bigint) as observed,
        cast(anomalies.expected as bigint) as expected,
        cast(anomalies.deviation_limit as bigint) as deviation_limit,
        cast(anomalies.history_count as bigint) as history_count
    from anomalies
    cross join parameters

)

select * from period_anomalies
