with

series as (

    select *
    from {{ ref('stg_thanos__series') }}
    where
        metric in (
            'kube_pod_container_resource_requests',
            'kube_pod_init_container_resource_requests',
            'kube_pod_status_phase',
            'kube_pod_container_state_started',
            'kube_pod_completion_time',
            'kube_pod_info',
            'kube_pod_resource_request'
        )
        and label_invalid = ''

),

resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

named as (

    select
        cluster_id,
        series_key,
        metric,
        pod_uid,
        pod_name,
        {{ label('labels', 'namespace') }} as namespace,
        {{ label('labels', 'resource') }} as resource,
        {{ label('labels', 'phase') }} as phase
    from series

),

-- Series of devices, and other metrics of a pod; only `Running` is a phase to count.
relevant as (

    select
        named.cluster_id,
        named.series_key,
        case
            when named.metric like 'kube_pod_%container_resource_requests' then 'requests'
            else named.metric
        end as metric,
        named.pod_uid,
        named.namespace,
        named.pod_name
    from named
    left join resources
        on named.resource = resources.resource
    where
        named.pod_uid <> ''
        and named.metric <> 'kube_pod_resource_request'
        and (named.resource = '' or resources.resource is not null)
        and named.phase in ('', 'Running')

),

scheduled as (

    select distinct
        named.cluster_id,
        named.namespace,
        named.pod_name
    from named
    inner join resources
        on named.resource = resources.resource
    where named.metric = 'kube_pod_resource_request'

),

-- A pod that the scheduler counts has devices, whatever its containers are said to request.
requesting as (

    select
        cluster_id,
        pod_uid
    from relevant
    where metric = 'requests'
    union
    select
        relevant.cluster_id,
        relevant.pod_uid
    from relevant
    inner join scheduled
        on
            relevant.cluster_id = scheduled.cluster_id
            and relevant.namespace = scheduled.namespace
            and relevant.pod_name = scheduled.pod_name
    where relevant.metric = 'kube_pod_status_phase'

)

select
    relevant.cluster_id,
    relevant.series_key,
    relevant.metric,
    relevant.pod_uid,
    relevant.namespace,
    relevant.pod_name
from relevant
inner join requesting
    on
        relevant.cluster_id = requesting.cluster_id
        and relevant.pod_uid = requesting.pod_uid
