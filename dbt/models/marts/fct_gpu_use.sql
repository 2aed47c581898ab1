with

telemetry as (

    select * from {{ ref('int_device_telemetry') }}

),

-- Only pods in telemetry are summed: a month has many more pods.
named_pods as (

    select distinct
        cluster_id,
        namespace,
        pod_name,
        hour_second
    from telemetry

),

resources as (

    select
        pod_hours.cluster_id,
        pod_hours.namespace,
        pod_hours.pod_name,
        pod_hours.pod_uid,
        pod_hours.node_name,
        pod_hours.resource,
        named_pods.hour_second,
        min(pod_hours.tenant) as tenant,
        sum(pod_hours.running_seconds) as running_seconds,
        sum(pod_hours.cost_nanos) as cost_nanos,
        max(pod_hours.device_count) as device_count
    from {{ ref('fct_pod_hours') }} as pod_hours
    inner join named_pods
        on
            pod_hours.cluster_id = named_pods.cluster_id
            and pod_hours.namespace = named_pods.namespace
            and pod_hours.pod_name = named_pods.pod_name
            and {{ epoch_seconds('pod_hours.hour_started_at') }} = named_pods.hour_second
    -- A pod with only one sample has no seconds, but it held a device.
    where
        pod_hours.state = 'running'
        and (pod_hours.running_seconds > 0 or pod_hours.uncertainty_seconds > 0)
    group by
        pod_hours.cluster_id,
        pod_hours.namespace,
        pod_hours.pod_name,
        pod_hours.pod_uid,
        pod_hours.node_name,
        pod_hours.resource,
        named_pods.hour_second

),

pods as (

    select
        cluster_id,
        namespace,
        pod_name,
        pod_uid,
        node_name,
        hour_second,
        min(tenant) as tenant,
        max(running_seconds) as running_seconds,
        sum(cost_nanos) as cost_nanos,
        sum(device_count) as device_count
    from resources
    group by cluster_id, namespace, pod_name, pod_uid, node_name, hour_second

),

-- Exporters identify pods by name, and a reading is of a whole hour: only the node distinguishes
-- two pods of one name.
names as (

    select
        cluster_id,
        namespace,
        pod_name,
        node_name,
        hour_second,
        count(*) as pod_count,
        min(tenant) as tenant,
        case when count(*) = 1 then min(pod_uid) end as pod_uid,
        sum(running_seconds) as running_seconds,
        case when count(*) = 1 then sum(cost_nanos) end as cost_nanos,
        case when count(*) = 1 then sum(device_count) end as device_count
    from (
        select * from pods
        union all
        select
            cluster_id,
            namespace,
            pod_name,
            pod_uid,
            '(any)' as node_name,
            hour_second,
            tenant,
            running_seconds,
            cost_nanos,
            device_count
        from pods
    ) as pods_by_place
    group by cluster_id, namespace, pod_name, node_name, hour_second

),

-- A node allocates devices before the pod runs, and an uncertain end may lie in the next hour.
lifetimes as (

    select
        cluster_id,
        namespace,
        pod_name,
        min({{ epoch_seconds('segment_started_at') }}) - 3600 as perhaps_from_second,
        max({{ epoch_seconds('segment_ended_at') }}) + 3600 as perhaps_until_second
    from {{ ref('fct_pod_hours') }}
    group by cluster_id, namespace, pod_name, pod_uid

),

possible_hours as (

    select
        cluster_id,
        namespace,
        pod_name,
        {{ each_hour('perhaps_from_second', 'perhaps_until_second') }} as hour_second
    from lifetimes

),

windows as (

    select
        cluster_id,
        max(scrape_interval_seconds) as scrape_interval_seconds,
        max(sample_interval_seconds) as sample_interval_seconds
    from {{ ref('int_cluster_windows') }}
    group by cluster_id

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- The pod of a series counts only if it had devices in the hour: the exporter's own pod has none.
attributed_use as (

    select
        telemetry.*,
        names.tenant,
        names.pod_uid,
        coalesce(names.pod_count, 0) as pod_count,
        possible_hours.hour_second is not null as is_perhaps_held,
        coalesce(names.running_seconds, 0) as running_seconds,
        coalesce(names.cost_nanos, 0) as pod_cost_nanos,
        coalesce(names.device_count, 1) as device_count,
        coalesce(telemetry.use_average, telemetry.card_use_average) as use_millionths_average,
        coalesce(telemetry.use_maximum, telemetry.card_use_maximum) as use_millionths_maximum,
        {{ whole_quotient('3600', 'windows.sample_interval_seconds') }} as due_sample_count
    from telemetry
    inner join windows
        on telemetry.cluster_id = windows.cluster_id
    left join names as here
        on
            telemetry.cluster_id = here.cluster_id
            and telemetry.namespace = here.namespace
            and telemetry.pod_name = here.pod_name
            and telemetry.node_name = here.node_name
            and telemetry.hour_second = here.hour_second
    left join names
        on
            telemetry.cluster_id = names.cluster_id
            and telemetry.namespace = names.namespace
            and telemetry.pod_name = names.pod_name
            and telemetry.hour_second = names.hour_second
            and names.node_name
            = case when here.pod_name is null then '(any)' else telemetry.node_name end
    left join (select distinct * from possible_hours) as possible_hours
        on
            telemetry.cluster_id = possible_hours.cluster_id
            and telemetry.namespace = possible_hours.namespace
            and telemetry.pod_name = possible_hours.pod_name
            and telemetry.hour_second = possible_hours.hour_second

),

-- Missing telemetry does not mean that a device is idle: an idle hour has at least 90 % of its
-- samples, and none is busy.
observed_use as (

    select
        *,
        -- The first partition of a card shows the use of the whole card.
        use_maximum is null
        and coalesce(
            instance_id
            <> min(case when pod_count > 0 or is_perhaps_held then instance_id end) over cards
            or instance_id
            <> max(case when pod_count > 0 or is_perhaps_held then instance_id end) over cards,
            false
        ) as is_perhaps_of_another_partition,
        use_millionths_maximum = 0
        and pod_count = 1
        and 10 * sample_count
        >= {{ whole_quotient('9 * due_sample_count * running_seconds', '3600') }}
        and sample_count > 0 as is_idle
    from attributed_use
    window
        cards as (partition by cluster_id, node_name, device_uuid, gpu_index, hour_second)

),

gpu_use as (

    select
        parameters.billing_period,
        observed_use.cluster_id,
        observed_use.node_name,
        observed_use.device_uuid,
        observed_use.gpu_index,
        observed_use.instance_id,
        observed_use.instance_profile,
        observed_use.model_name,
        {{ instant('observed_use.hour_second') }} as hour_started_at,
        observed_use.namespace,
        observed_use.pod_name,
        coalesce(observed_use.tenant, '') as tenant,
        coalesce(observed_use.pod_uid, '') as pod_uid,
        observed_use.sample_count,
        observed_use.use_millionths_average,
        observed_use.use_millionths_maximum,
        observed_use.memory_traffic_average as memory_traffic_millionths_average,
        observed_use.sm_active_average as sm_active_millionths_average,
        observed_use.sm_occupancy_average as sm_occupancy_millionths_average,
        observed_use.tensor_active_average as tensor_active_millionths_average,
        observed_use.dram_active_average as dram_active_millionths_average,
        observed_use.fp64_active_average as fp64_active_millionths_average,
        observed_use.fp32_active_average as fp32_active_millionths_average,
        observed_use.fp16_active_average as fp16_active_millionths_average,
        observed_use.pcie_sent_average as pcie_sent_bytes_per_second_average,
        observed_use.pcie_received_average as pcie_received_bytes_per_second_average,
        observed_use.nvlink_sent_average as nvlink_sent_bytes_per_second_average,
        observed_use.nvlink_received_average as nvlink_received_bytes_per_second_average,
        observed_use.memory_used_average as memory_used_mib_average,
        observed_use.memory_used_maximum as memory_used_mib_maximum,
        observed_use.power_average as power_milliwatts_average,
        observed_use.power_maximum as power_milliwatts_maximum,
        observed_use.temperature_average as temperature_millicelsius_average,
        observed_use.temperature_maximum as temperature_millicelsius_maximum,
        cast(observed_use.running_seconds as bigint) as allocated_seconds,
        observed_use.pod_count > 1 as is_ambiguous,
        coalesce(observed_use.is_idle, false) as is_idle,
        cast(case when observed_use.is_idle then observed_use.running_seconds else 0 end as bigint)
            as idle_seconds,
        cast(
            case
                when observed_use.is_idle
                    then
                        {{ whole_quotient(
                            exact('observed_use.pod_cost_nanos'), exact('observed_use.device_count')
                        ) }}
                else 0
            end
            as decimal(38, 0)
        ) as idle_nanos,
        observed_use.has_two_names,
        observed_use.pod_count = 0
        and not observed_use.is_perhaps_held
        and not observed_use.is_perhaps_of_another_partition
        and coalesce(observed_use.use_millionths_maximum, 0) > 0 as is_used_unallocated
    from observed_use
    cross join parameters

)

select * from gpu_use
