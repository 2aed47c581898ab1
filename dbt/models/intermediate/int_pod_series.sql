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

labelled_series as (

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

-- Series of requested devices, and of other metrics of a pod; of the phases only `Running`.
relevant_series as (

    select
        labelled_series.cluster_id,
        labelled_series.series_key,
        case
            when labelled_series.metric like 'kube_pod_%container_resource_requests' then 'requests'
            else labelled_series.metric
        end as metric,
        labelled_series.pod_uid,
        labelled_series.namespace,
        labelled_series.pod_name
    from labelled_series
    left join resources
        on labelled_series.resource = resources.resource
    where
        labelled_series.pod_uid <> ''
        and labelled_series.metric <> 'kube_pod_resource_request'
        and (labelled_series.resource = '' or resources.resource is not null)
        and labelled_series.phase in ('', 'Running')

),

scheduled_pods as (

    select distinct
        labelled_series.cluster_id,
        labelled_series.namespace,
        labelled_series.pod_name
    from labelled_series
    inner join resources
        on labelled_series.resource = resources.resource
    where labelled_series.metric = 'kube_pod_resource_request'

),

-- A pod has devices if the scheduler counts them, also if no sample has a request of its
-- containers.
pods_with_devices as (

    select
        cluster_id,
        pod_uid
    from relevant_series
    where metric = 'requests'
    union
    select
        relevant_series.cluster_id,
        relevant_series.pod_uid
    from relevant_series
    inner join scheduled_pods
        on
            relevant_series.cluster_id = scheduled_pods.cluster_id
            and relevant_series.namespace = scheduled_pods.namespace
            and relevant_series.pod_name = scheduled_pods.pod_name
    where relevant_series.metric = 'kube_pod_status_phase'

)

select
    relevant_series.cluster_id,
    relevant_series.series_key,
    relevant_series.metric,
    relevant_series.pod_uid,
    relevant_series.namespace,
    relevant_series.pod_name
from relevant_series
inner join pods_with_devices
    on
        relevant_series.cluster_id = pods_with_devices.cluster_id
        and relevant_series.pod_uid = pods_with_devices.pod_uid
