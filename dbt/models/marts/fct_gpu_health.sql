-- noqa: disable=LT05
-- (jinja writes lists of metrics on one line)
{#- Metrics by what they show, as their exporters name them before and since DCGM 4.7. -#}
{% set states = [
    ('xid', ['DCGM_FI_DEV_XID_ERRORS', 'DCGM_FI_DEV_XID_ERROR']),
    ('row_remap_failed', ['DCGM_FI_DEV_ROW_REMAP_FAILURE', 'DCGM_FI_DEV_ROW_REMAP_FAILED']),
    ('throttled', ['DCGM_FI_DEV_CLOCK_THROTTLE_REASONS', 'DCGM_FI_DEV_CLOCKS_EVENT_REASONS']),
    ('hot', ['DCGM_FI_DEV_GPU_TEMP', 'DCGM_FI_DEV_GPU_TEMP_CELSIUS']),
] %}
{% set counters = [
    ('rows_remapped', [
        'DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS', 'DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL',
    ]),
    ('ecc_uncorrected', ['DCGM_FI_DEV_ECC_DBE_VOL_TOTAL', 'DCGM_FI_DEV_ECC_DBE_AGG_TOTAL']),
    ('nvlink_errors', [
        'DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL',
        'DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL',
        'DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL',
        'DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL',
    ]),
] %}
{% set of_nodes = ['node_not_ready', 'node_condition', 'unhealthy_devices', 'operator_not_ready'] %}
{#- Bits of the throttle reasons that a fault causes: hardware, thermal, power brake. -#}
{% set throttle_bits = [8, 32, 64, 128] %}
{% set hot_celsius = 90 %}
{#- XIDs that a program causes by itself: exceptions and faults of its own kernels. -#}
{% set program_xids = [13, 31, 43, 45, 68, 69] %}

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
        {{ first_label(['GPU_I_ID', 'gpu_partition_id', 'partition']) }} as instance_id
    from {{ ref('stg_thanos__series') }}
    where metric not like 'kube_%' and metric <> 'up'

),

problem_samples as (

    select
        telemetry.cluster_id,
        series.node_name,
        series.device_uuid,
        series.gpu_index,
        series.instance_id,
        telemetry.hour_second,
        case
            {% for problem, metrics in states + counters %}
                when telemetry.metric in ('{{ metrics | join("', '") }}') then '{{ problem }}'
            {% endfor %}
            else 'operator_not_ready'
        end as problem,
        case
            when
                telemetry.metric like 'gpu_operator_%'
                or telemetry.metric in ('{{ (counters | last)[1] | join("', '") }}')
                then telemetry.metric
            else ''
        end as component,
        cast(
            case
                -- Devices that the device plugin offers; -1 if the plugin is off.
                when
                    telemetry.metric = 'gpu_operator_node_device_plugin_devices_total'
                    and min(telemetry.average_reading) < 0
                    then 100
                -- Share of the samples with the state ready, in per cent.
                when telemetry.metric like 'gpu_operator_%'
                    then floor(least(min(telemetry.average_reading), 1) * 100)
                else round(max(telemetry.maximum_reading))
            end
            as bigint
        ) as reading
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
    where
        telemetry.metric like 'gpu_operator_%'
        {% for _, metrics in states + counters %}
            or telemetry.metric in ('{{ metrics | join("', '") }}')
        {% endfor %}
    group by
        telemetry.cluster_id,
        series.node_name,
        series.device_uuid,
        series.gpu_index,
        series.instance_id,
        telemetry.hour_second,
        telemetry.metric

),

-- The largest reading of a device, if a field has two names or an hour has several pods. The
-- counters of NVLink count different errors: the largest of them would hide a rise of another.
readings as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        hour_second,
        problem,
        component,
        max(reading) as reading
    from problem_samples
    group by
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        hour_second,
        problem,
        component

),

ordered_readings as (

    select
        *,
        lag(reading) over (
            partition by
                cluster_id, node_name, device_uuid, gpu_index, instance_id, problem, component
            order by hour_second
        ) as reading_before
    from readings

),

-- A counter that becomes smaller was reset. The first value of a counter is from before the month
-- and does not count.
device_problems as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        hour_second,
        problem,
        component,
        case
            when problem in ('{{ counters | map(attribute=0) | join("', '") }}')
                then reading - coalesce(reading_before, reading)
            else reading
        end as observed,
        coalesce(reading_before <> reading, true) as is_new
    from ordered_readings
    where
        (problem = 'xid' and reading > 0)
        or (problem = 'row_remap_failed' and reading > 0)
        or (problem = 'hot' and reading >= {{ hot_celsius }})
        or (
            problem = 'throttled'
            and (
                {% for bit in throttle_bits %}
                    mod({{ whole_quotient('reading', bit | string) }}, 2) = 1
                    {{- ' or' if not loop.last }}
                {% endfor %}
            )
        )
        or (problem = 'operator_not_ready' and reading < 100)
        or (
            problem in ('{{ counters | map(attribute=0) | join("', '") }}')
            and reading > reading_before
        )

),

-- Devices in the capacity of a node that are not allocatable.
unhealthy_hours as (

    select
        cluster_id,
        node_name,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        sum(unhealthy_share_seconds) as unhealthy_share_seconds,
        max(share_denominator) as share_denominator
    from {{ ref('fct_node_share_hours') }}
    where dimension = 'compute'
    group by cluster_id, node_name, hour_started_at

),

conditions as (

    select distinct
        cluster_id,
        series_key,
        {{ label('labels', 'node') }} as node_name,
        {{ label('labels', 'condition') }} as node_condition
    from {{ ref('stg_thanos__series') }}
    where
        metric = 'kube_node_status_condition'
        and label_invalid = ''
        and {{ label('labels', 'status') }} = 'true'

),

gpu_nodes as (

    select distinct
        cluster_id,
        node_name
    from {{ ref('int_node_classes') }}

),

-- Ready is true on a healthy node; every other condition, such as MemoryPressure, is not.
condition_runs as (

    select
        runs.cluster_id,
        conditions.node_name,
        case when conditions.node_condition = 'Ready' then '' else conditions.node_condition end
            as component,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as first_second,
        {{ whole_quotient('runs.last_sampled_ms', 1000) }} + 1 as end_second
    from {{ ref('int_sample_runs') }} as runs
    inner join conditions
        on
            runs.cluster_id = conditions.cluster_id
            and runs.series_key = conditions.series_key
    inner join gpu_nodes
        on
            conditions.cluster_id = gpu_nodes.cluster_id
            and conditions.node_name = gpu_nodes.node_name
    where
        runs.metric = 'kube_node_status_condition'
        and runs.sample_quantity = case when conditions.node_condition = 'Ready' then 0 else 1 end

),

condition_hours as (

    select
        cluster_id,
        node_name,
        component,
        first_second,
        end_second,
        {{ each_hour('first_second', 'end_second') }} as hour_second
    from condition_runs

),

problems as (

    select
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        hour_second,
        problem,
        component,
        observed,
        is_new
    from device_problems
    union all
    select
        cluster_id,
        node_name,
        '' as device_uuid,
        '' as gpu_index,
        '' as instance_id,
        hour_second,
        'unhealthy_devices' as problem,
        '' as component,
        cast(
            {{ whole_quotient(exact('unhealthy_share_seconds'), exact('share_denominator')) }}
            as bigint
        ) as observed,
        true as is_new
    from unhealthy_hours
    where unhealthy_share_seconds > 0
    union all
    select
        cluster_id,
        node_name,
        '' as device_uuid,
        '' as gpu_index,
        '' as instance_id,
        hour_second,
        case when component = '' then 'node_not_ready' else 'node_condition' end as problem,
        component,
        cast(
            sum(least(end_second, hour_second + 3600) - greatest(first_second, hour_second))
            as bigint
        ) as observed,
        true as is_new
    from condition_hours
    group by cluster_id, node_name, component, hour_second

),

problem_hours as (

    select distinct
        cluster_id,
        {{ instant('hour_second') }} as hour_started_at
    from problems

),

pod_hours as (

    select
        pod_hours.cluster_id,
        pod_hours.node_name,
        {{ epoch_seconds('pod_hours.hour_started_at') }} as hour_second,
        pod_hours.pod_uid,
        min(pod_hours.namespace) as namespace,
        min(pod_hours.pod_name) as pod_name,
        min(pod_hours.tenant) as tenant,
        max(pod_hours.currency) as currency,
        max(pod_hours.running_seconds) as running_seconds,
        sum(case when pod_hours.is_outage then 0 else pod_hours.cost_nanos end) as cost_nanos
    from {{ ref('fct_pod_hours') }} as pod_hours
    inner join problem_hours
        on
            pod_hours.cluster_id = problem_hours.cluster_id
            and pod_hours.hour_started_at = problem_hours.hour_started_at
    where pod_hours.running_seconds > 0
    group by
        pod_hours.cluster_id,
        pod_hours.node_name,
        pod_hours.hour_started_at,
        pod_hours.pod_uid

),

-- Telemetry names the pod of a device; a problem of a node affects all of its pods.
holders as (

    select distinct
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        pod_uid
    from {{ ref('fct_gpu_use') }}
    where pod_uid <> ''

),

affected_pods as (

    select
        problems.*,
        holders.pod_uid as affected_uid
    from problems
    left join holders
        on
            problems.cluster_id = holders.cluster_id
            and problems.node_name = holders.node_name
            and problems.device_uuid = holders.device_uuid
            and problems.gpu_index = holders.gpu_index
            and problems.instance_id = holders.instance_id
            and problems.hour_second = holders.hour_second
    where problems.problem not in ('{{ of_nodes | join("', '") }}')
    union all
    select
        problems.*,
        pod_hours.pod_uid as affected_uid
    from problems
    left join pod_hours
        on
            problems.cluster_id = pod_hours.cluster_id
            and problems.node_name = pod_hours.node_name
            and problems.hour_second = pod_hours.hour_second
            and problems.problem in ('node_not_ready', 'node_condition')
    where problems.problem in ('{{ of_nodes | join("', '") }}')

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

health as (

    select
        parameters.billing_period,
        affected_pods.cluster_id,
        affected_pods.node_name,
        affected_pods.device_uuid,
        affected_pods.gpu_index,
        affected_pods.instance_id,
        {{ instant('affected_pods.hour_second') }} as hour_started_at,
        affected_pods.problem,
        affected_pods.component,
        affected_pods.observed,
        affected_pods.is_new,
        affected_pods.problem in (
            'node_not_ready', 'row_remap_failed', 'rows_remapped', 'ecc_uncorrected'
        )
        or (
            affected_pods.problem = 'xid'
            and affected_pods.observed not in ({{ program_xids | join(', ') }})
        ) as is_fault_of_provider,
        coalesce(pod_hours.namespace, '') as namespace,
        coalesce(pod_hours.pod_name, '') as pod_name,
        coalesce(pod_hours.pod_uid, '') as pod_uid,
        coalesce(pod_hours.tenant, '') as tenant,
        cast(coalesce(pod_hours.running_seconds, 0) as bigint) as running_seconds,
        coalesce(pod_hours.currency, '') as currency,
        cast(coalesce(pod_hours.cost_nanos, 0) as decimal(38, 0)) as cost_nanos
    from affected_pods
    left join pod_hours
        on
            affected_pods.cluster_id = pod_hours.cluster_id
            and affected_pods.affected_uid = pod_hours.pod_uid
            and affected_pods.hour_second = pod_hours.hour_second
    cross join parameters

)

select * from health
