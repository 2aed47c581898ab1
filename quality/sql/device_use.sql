-- Devices in use whose telemetry names no pod, by node.
with

gpu_use as (

    select *
    from marts.fct_gpu_use
    where billing_period = $period

),

-- Pods that held a device of a node in an hour without telemetry that names them.
unnamed_pods as (

    select distinct
        pod_hours.cluster_id,
        pod_hours.node_name,
        pod_hours.hour_started_at
    from marts.fct_pod_hours as pod_hours
    where
        pod_hours.billing_period = $period
        and pod_hours.running_seconds > 0
        and exists (
            select 1 as used
            from gpu_use
            where
                gpu_use.cluster_id = pod_hours.cluster_id
                and gpu_use.node_name = pod_hours.node_name
                and gpu_use.hour_started_at = pod_hours.hour_started_at
                and gpu_use.is_used_unallocated
        )
        and not exists (
            select 1 as named
            from gpu_use
            where
                gpu_use.cluster_id = pod_hours.cluster_id
                and gpu_use.hour_started_at = pod_hours.hour_started_at
                and (
                    gpu_use.pod_uid = pod_hours.pod_uid
                    or (
                        gpu_use.is_ambiguous
                        and gpu_use.namespace = pod_hours.namespace
                        and gpu_use.pod_name = pod_hours.pod_name
                    )
                )
        )

),

-- Devices whose samples name a pod for less than nine tenths of the time that it held them.
partly_named_devices as (

    select
        cluster_id,
        device_uuid,
        instance_id,
        hour_started_at
    from gpu_use
    group by all
    having
        36000 * sum(sample_count) filter (where pod_uid <> '' or is_ambiguous)
        < 9 * max(allocated_seconds) filter (where pod_uid <> '' or is_ambiguous)
        * sum(sample_count)

)

select
    gpu_use.cluster_id,
    gpu_use.node_name,
    unnamed_pods.node_name is null and partly_named_devices.device_uuid is null as is_unallocated,
    count(*) as hour_count,
    min(gpu_use.hour_started_at) as first_hour_started_at,
    max(gpu_use.hour_started_at) as last_hour_started_at
from gpu_use
left join unnamed_pods
    on
        gpu_use.cluster_id = unnamed_pods.cluster_id
        and gpu_use.node_name = unnamed_pods.node_name
        and gpu_use.hour_started_at = unnamed_pods.hour_started_at
left join partly_named_devices
    on
        gpu_use.cluster_id = partly_named_devices.cluster_id
        and gpu_use.device_uuid = partly_named_devices.device_uuid
        and gpu_use.instance_id = partly_named_devices.instance_id
        and gpu_use.hour_started_at = partly_named_devices.hour_started_at
where gpu_use.is_used_unallocated
group by all
order by all
