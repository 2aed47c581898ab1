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
        {{ label('labels', 'namespace') }} as namespace,
        pod_name,
        {{ label('labels', 'container') }} as container_name,
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

)

select * from requests
