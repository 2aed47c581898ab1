with

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where
        metric in (
            'kube_pod_container_resource_requests', 'kube_pod_init_container_resource_requests'
        )
        and sample_quantity > 0

),

series as (

    select * from {{ ref('int_series') }}

),

resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

sidecars as (

    select distinct
        cluster_id,
        pod_uid,
        container_name
    from series
    where metric = 'kube_pod_init_container_info' and restart_policy = 'Always'

),

-- Exporters that restart, and their replicas, say the same thing twice; the larger one is one of
-- them. What a container requests does not change while its pod lives.
containers as (

    select
        runs.cluster_id,
        series.pod_uid,
        resources.resource_key,
        series.container_name,
        runs.metric = 'kube_pod_init_container_resource_requests' as is_init,
        max(runs.sample_quantity) as device_count,
        max(series.namespace) as namespace,
        max(series.pod_name) as pod_name,
        max(series.node_name) as node_name,
        min(series.resource) as resource,
        {{ whole_quotient('min(runs.first_sampled_ms)', 1000) }} as first_sampled_second
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_id = series.series_id
    inner join resources
        on series.resource = resources.resource
    group by
        runs.cluster_id,
        series.pod_uid,
        resources.resource_key,
        series.container_name,
        runs.metric

),

marked as (

    select
        containers.*,
        sidecars.container_name is not null as is_sidecar
    from containers
    left join sidecars
        on
            containers.cluster_id = sidecars.cluster_id
            and containers.pod_uid = sidecars.pod_uid
            and containers.container_name = sidecars.container_name

),

-- Init containers run one after another and before the others, on the same devices.
pods as (

    select
        cluster_id,
        pod_uid,
        resource_key,
        min(resource) as resource,
        max(namespace) as namespace,
        max(pod_name) as pod_name,
        max(node_name) as node_name,
        min(first_sampled_second) as first_sampled_second,
        greatest(
            sum(case when is_init and not is_sidecar then 0 else device_count end),
            max(case when is_init and not is_sidecar then device_count else 0 end)
        ) as device_count
    from marked
    group by cluster_id, pod_uid, resource_key

)

select
    cluster_id,
    pod_uid,
    resource_key,
    resource,
    namespace,
    pod_name,
    node_name,
    first_sampled_second,
    cast(device_count as bigint) as device_count
from pods
