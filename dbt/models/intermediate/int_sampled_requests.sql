with

runs as (

    select
        cluster_id,
        series_key,
        max(sample_quantity) as device_count,
        min(first_sampled_ms) as first_sampled_ms
    from {{ ref('int_sample_runs') }}
    where
        metric in (
            'kube_pod_container_resource_requests', 'kube_pod_init_container_resource_requests'
        )
        and sample_quantity > 0
    group by cluster_id, series_key

),

resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

sightings as (

    select
        *,
        {{ whole_quotient('first_sampled_ms', 3600000) }} * 3600 as hour_second
    from {{ ref('int_pod_sightings') }}

),

pod_series as (

    select * from {{ ref('int_sampled_pod_series') }}

),

scheduler_runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where metric = 'kube_pod_resource_request' and sample_quantity > 0

),

series as (

    select distinct
        cluster_id,
        series_key,
        metric,
        coalesce(nullif({{ label('labels', 'exported_pod') }}, ''), pod_name) as pod_name,
        {{ first_label(['exported_namespace', 'namespace']) }} as namespace,
        {{ label('labels', 'node') }} as node_name,
        {{ label('labels', 'resource') }} as resource
    from {{ ref('stg_thanos__series') }}
    where metric like 'kube_pod_%' and label_invalid = ''

),

sidecars as (

    select * from {{ ref('int_sampled_sidecars') }}

),

pods as (

    select * from {{ ref('int_pods') }}

),

named as (

    select
        cluster_id,
        series_key,
        metric = 'kube_pod_init_container_resource_requests' as is_init,
        pod_uid,
        {{ first_label(['exported_namespace', 'namespace']) }} as namespace,
        coalesce(nullif({{ label('labels', 'exported_pod') }}, ''), pod_name) as pod_name,
        {{ first_label(['exported_container', 'container']) }} as container_name,
        {{ label('labels', 'node') }} as node_name,
        {{ label('labels', 'resource') }} as resource
    from {{ ref('stg_thanos__series') }}
    where
        metric in (
            'kube_pod_container_resource_requests', 'kube_pod_init_container_resource_requests'
        )
        and label_invalid = ''

),

-- Exporters that restart, and their replicas, say the same thing twice; the larger one is one of
-- them. What a container requests does not change while its pod lives.
containers as (

    select
        named.cluster_id,
        named.pod_uid,
        resources.resource_key,
        named.container_name,
        named.is_init and sidecars.container_name is null as is_init,
        max(runs.device_count) as device_count,
        max(named.namespace) as namespace,
        max(named.pod_name) as pod_name,
        max(named.node_name) as node_name,
        min(named.resource) as resource,
        {{ whole_quotient('min(runs.first_sampled_ms)', 1000) }} as first_sampled_second
    from runs
    inner join named
        on
            runs.series_key = named.series_key
            and runs.cluster_id = named.cluster_id
    inner join resources
        on named.resource = resources.resource
    left join sidecars
        on
            named.cluster_id = sidecars.cluster_id
            and named.pod_uid = sidecars.pod_uid
            and named.container_name = sidecars.container_name
    where named.pod_uid <> ''
    group by
        named.cluster_id,
        named.pod_uid,
        resources.resource_key,
        named.container_name,
        named.is_init and sidecars.container_name is null

),

-- Init containers run one after another and before the others, on the same devices.
requests as (

    select
        pods.pod_number,
        containers.resource_key,
        min(containers.resource) as resource,
        max(containers.namespace) as namespace,
        max(containers.pod_name) as pod_name,
        max(containers.node_name) as node_name,
        min(containers.first_sampled_second) as first_sampled_second,
        cast(
            greatest(
                sum(case when containers.is_init then 0 else containers.device_count end),
                max(case when containers.is_init then containers.device_count else 0 end)
            )
            as bigint
        ) as device_count
    from containers
    inner join pods
        on
            containers.cluster_id = pods.cluster_id
            and containers.pod_uid = pods.pod_uid
    group by pods.pod_number, containers.resource_key

),

pod_names as (

    select distinct
        pod_series.cluster_id,
        pod_series.pod_number,
        series.namespace,
        series.pod_name
    from pod_series
    inner join series
        on
            pod_series.cluster_id = series.cluster_id
            and pod_series.series_key = series.series_key

),

-- The scheduler's own count of a pod, while that pod was seen to run. It names no UID.
scheduled as (

    select
        pod_names.pod_number,
        resources.resource_key,
        min(series.resource) as resource,
        max(pod_names.namespace) as namespace,
        max(pod_names.pod_name) as pod_name,
        max(series.node_name) as node_name,
        {{ whole_quotient('min(sightings.first_sampled_ms)', 1000) }} as first_sampled_second,
        min(scheduler_runs.sample_quantity) as scheduler_device_count_min,
        max(scheduler_runs.sample_quantity) as scheduler_device_count_max
    from scheduler_runs
    inner join series
        on
            scheduler_runs.cluster_id = series.cluster_id
            and scheduler_runs.series_key = series.series_key
    inner join resources
        on series.resource = resources.resource
    inner join pod_names
        on
            series.cluster_id = pod_names.cluster_id
            and series.namespace = pod_names.namespace
            and series.pod_name = pod_names.pod_name
    inner join sightings
        on
            pod_names.pod_number = sightings.pod_number
            and scheduler_runs.hour_second = sightings.hour_second
            and scheduler_runs.first_sampled_ms <= sightings.last_sampled_ms
            and sightings.first_sampled_ms <= scheduler_runs.last_sampled_ms
    group by pod_names.pod_number, resources.resource_key

)

select
    coalesce(requests.pod_number, scheduled.pod_number) as pod_number,
    coalesce(requests.resource_key, scheduled.resource_key) as resource_key,
    coalesce(requests.resource, scheduled.resource) as resource,
    coalesce(requests.namespace, scheduled.namespace) as namespace,
    coalesce(requests.pod_name, scheduled.pod_name) as pod_name,
    coalesce(requests.node_name, scheduled.node_name) as node_name,
    coalesce(requests.first_sampled_second, scheduled.first_sampled_second)
        as first_sampled_second,
    coalesce(requests.device_count, scheduled.scheduler_device_count_max) as device_count,
    coalesce(requests.device_count, 0) as container_device_count,
    scheduled.scheduler_device_count_min,
    scheduled.scheduler_device_count_max
from requests
full outer join scheduled
    on
        requests.pod_number = scheduled.pod_number
        and requests.resource_key = scheduled.resource_key
