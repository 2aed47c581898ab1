with

resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

journal as (

    select
        requests.cluster_id,
        requests.pod_uid,
        resources.resource_key,
        requests.resource,
        max(requests.device_count) as device_count
    from {{ ref('stg_kubernetes__pod_requests') }} as requests
    inner join {{ ref('int_journal_attempts') }} as attempts
        on
            requests.cluster_id = attempts.cluster_id
            and requests.attempt_id = attempts.attempt_id
    inner join resources
        on requests.resource = resources.resource
    where requests.device_count > 0
    group by
        requests.cluster_id, requests.pod_uid, resources.resource_key, requests.resource

),

container_runs as (

    select
        cluster_id,
        series_key,
        max(sample_quantity) as device_count,
        min(first_sampled_ms) as first_sampled_ms
    from {{ ref('int_pod_sample_runs') }}
    where
        metric in (
            'kube_pod_container_resource_requests', 'kube_pod_init_container_resource_requests'
        )
        and sample_quantity > 0
    group by cluster_id, series_key

),

scheduler_runs as (

    select *
    from {{ ref('int_pod_sample_runs') }}
    where metric = 'kube_pod_resource_request' and sample_quantity > 0

),

series as (

    select distinct
        cluster_id,
        series_key,
        metric = 'kube_pod_init_container_resource_requests' as is_init,
        pod_uid,
        coalesce(nullif({{ label('labels', 'exported_pod') }}, ''), pod_name) as pod_name,
        {{ first_label(['exported_namespace', 'namespace']) }} as namespace,
        {{ first_label(['exported_container', 'container']) }} as container_name,
        {{ label('labels', 'node') }} as node_name,
        {{ label('labels', 'resource') }} as resource
    from {{ ref('stg_thanos__series') }}
    where metric like 'kube_pod_%' and label_invalid = ''

),

sidecars as (

    select distinct
        cluster_id,
        pod_uid,
        {{ first_label(['exported_container', 'container']) }} as container_name
    from {{ ref('stg_thanos__series') }}
    where
        metric = 'kube_pod_init_container_info'
        and label_invalid = ''
        and {{ label('labels', 'restart_policy') }} = 'Always'

),

-- A restarted exporter, or a replica of it, has a second series of a request: the larger value
-- counts. The requests of a container never change.
containers as (

    select
        series.cluster_id,
        series.pod_uid,
        resources.resource_key,
        series.container_name,
        series.is_init and sidecars.container_name is null as is_init,
        max(container_runs.device_count) as device_count,
        max(series.namespace) as namespace,
        max(series.pod_name) as pod_name,
        max(series.node_name) as node_name,
        min(series.resource) as resource,
        {{ whole_quotient('min(container_runs.first_sampled_ms)', 1000) }} as first_sampled_second
    from container_runs
    inner join series
        on
            container_runs.series_key = series.series_key
            and container_runs.cluster_id = series.cluster_id
    inner join resources
        on series.resource = resources.resource
    left join sidecars
        on
            series.cluster_id = sidecars.cluster_id
            and series.pod_uid = sidecars.pod_uid
            and series.container_name = sidecars.container_name
    where series.pod_uid <> ''
    group by
        series.cluster_id,
        series.pod_uid,
        resources.resource_key,
        series.container_name,
        series.is_init and sidecars.container_name is null

),

-- Init containers run one after another, before the other containers and on the same devices.
container_requests as (

    select
        containers.cluster_id,
        containers.pod_uid,
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
    group by containers.cluster_id, containers.pod_uid, containers.resource_key

),

pod_names as (

    select distinct
        pod_series.cluster_id,
        pod_series.pod_uid,
        series.namespace,
        series.pod_name
    from {{ ref('int_pod_series') }} as pod_series
    inner join series
        on
            pod_series.cluster_id = series.cluster_id
            and pod_series.series_key = series.series_key

),

-- The count of the scheduler, while samples show that the pod runs. Its series have no UID.
scheduler_requests as (

    select
        pod_names.cluster_id,
        pod_names.pod_uid,
        resources.resource_key,
        min(series.resource) as resource,
        max(pod_names.namespace) as namespace,
        max(pod_names.pod_name) as pod_name,
        max(series.node_name) as node_name,
        {{ whole_quotient('min(intervals.first_sampled_ms)', 1000) }} as first_sampled_second,
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
    inner join {{ ref('int_running_intervals_from_samples') }} as intervals
        on
            pod_names.cluster_id = intervals.cluster_id
            and pod_names.pod_uid = intervals.pod_uid
            and scheduler_runs.first_sampled_ms <= intervals.last_sampled_ms
            and intervals.first_sampled_ms <= scheduler_runs.last_sampled_ms
    group by pod_names.cluster_id, pod_names.pod_uid, resources.resource_key

),

sampled_requests as (

    select
        coalesce(container_requests.cluster_id, scheduler_requests.cluster_id) as cluster_id,
        coalesce(container_requests.pod_uid, scheduler_requests.pod_uid) as pod_uid,
        coalesce(container_requests.resource_key, scheduler_requests.resource_key) as resource_key,
        coalesce(container_requests.resource, scheduler_requests.resource) as resource,
        coalesce(container_requests.namespace, scheduler_requests.namespace) as namespace,
        coalesce(container_requests.pod_name, scheduler_requests.pod_name) as pod_name,
        coalesce(container_requests.node_name, scheduler_requests.node_name) as node_name,
        coalesce(container_requests.first_sampled_second, scheduler_requests.first_sampled_second)
            as first_sampled_second,
        coalesce(container_requests.device_count, scheduler_requests.scheduler_device_count_max)
            as device_count,
        coalesce(container_requests.device_count, 0) as container_device_count,
        scheduler_requests.scheduler_device_count_min,
        scheduler_requests.scheduler_device_count_max
    from container_requests
    full outer join scheduler_requests
        on
            container_requests.cluster_id = scheduler_requests.cluster_id
            and container_requests.pod_uid = scheduler_requests.pod_uid
            and container_requests.resource_key = scheduler_requests.resource_key

),

-- The requests in the journal are exact. Samples are used for pods that the journal does not have.
known_requests as (

    select
        coalesce(journal.cluster_id, sampled_requests.cluster_id) as cluster_id,
        coalesce(journal.pod_uid, sampled_requests.pod_uid) as pod_uid,
        coalesce(journal.resource_key, sampled_requests.resource_key) as resource_key,
        coalesce(journal.resource, sampled_requests.resource) as resource,
        '' as claim_uid,
        coalesce(journal.device_count, sampled_requests.device_count) as device_count,
        journal.device_count as journal_device_count,
        sampled_requests.device_count as sampled_device_count,
        sampled_requests.container_device_count,
        sampled_requests.scheduler_device_count_min,
        sampled_requests.scheduler_device_count_max,
        sampled_requests.resource as sampled_resource,
        sampled_requests.namespace,
        sampled_requests.pod_name,
        sampled_requests.node_name,
        sampled_requests.first_sampled_second
    from journal
    full outer join sampled_requests
        on
            journal.cluster_id = sampled_requests.cluster_id
            and journal.pod_uid = sampled_requests.pod_uid
            and journal.resource_key = sampled_requests.resource_key

),

claim_requests as (

    select distinct
        cluster_id,
        pod_uid,
        resource_key,
        resource,
        claim_uid,
        cast(1 as bigint) as device_count,
        cast(1 as bigint) as journal_device_count,
        cast(null as bigint) as sampled_device_count,
        cast(null as bigint) as container_device_count,
        cast(null as bigint) as scheduler_device_count_min,
        cast(null as bigint) as scheduler_device_count_max,
        cast(null as string) as sampled_resource,
        cast(null as string) as namespace,
        cast(null as string) as pod_name,
        cast(null as string) as node_name,
        cast(null as bigint) as first_sampled_second
    from {{ ref('int_claimed_devices') }}
    where not is_card_of_shares

)

select * from known_requests
union all
select * from claim_requests
