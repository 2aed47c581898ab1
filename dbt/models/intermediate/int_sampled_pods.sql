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
            'kube_pod_info'
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
        {{ label('labels', 'resource') }} as resource,
        {{ label('labels', 'phase') }} as phase
    from series

),

-- Series of devices, and what else is sampled about a pod; only `Running` is a phase to count.
relevant as (

    select
        named.cluster_id,
        named.series_key,
        case
            when named.metric like 'kube_pod_%container_resource_requests' then 'requests'
            else named.metric
        end as metric,
        named.pod_uid
    from named
    left join resources
        on named.resource = resources.resource
    where
        named.pod_uid <> ''
        and (named.resource = '' or resources.resource is not null)
        and named.phase in ('', 'Running')

),

requesting as (

    select distinct
        cluster_id,
        pod_uid
    from relevant
    where metric = 'requests'

)

select
    relevant.cluster_id,
    relevant.series_key,
    relevant.metric,
    relevant.pod_uid
from relevant
inner join requesting
    on
        relevant.cluster_id = requesting.cluster_id
        and relevant.pod_uid = requesting.pod_uid
