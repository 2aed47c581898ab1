with

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where
        metric in (
            'kube_pod_container_resource_requests',
            'kube_pod_init_container_resource_requests',
            'kube_pod_resource_request',
            'kube_pod_status_phase'
        )
        -- Whether a pod that runs requests a device at all is not decided here.
        and (sample_quantity > 0 or metric <> 'kube_pod_status_phase')
        and sample_quantity is not null

),

series as (

    select *
    from {{ ref('int_pod_series') }}
    where metric in ('requests', 'kube_pod_status_phase')

),

-- The scheduler names no UID; what it counts stands for requests that are not sampled.
scheduled as (

    select distinct
        phases.cluster_id,
        phases.pod_uid,
        scheduler_series.series_key
    from series as phases
    inner join {{ ref('stg_thanos__series') }} as scheduler_series
        on
            phases.cluster_id = scheduler_series.cluster_id
            and scheduler_series.metric = 'kube_pod_resource_request'
            and phases.pod_name = scheduler_series.pod_name
            and phases.namespace = {{ label('scheduler_series.labels', 'namespace') }}
    left join series as requests
        on
            phases.cluster_id = requests.cluster_id
            and phases.pod_uid = requests.pod_uid
            and requests.metric = 'requests'
    where phases.metric = 'kube_pod_status_phase' and requests.pod_uid is null

),

pod_series as (

    select
        cluster_id,
        series_key,
        pod_uid,
        metric = 'requests' as is_request
    from series
    union all
    select
        cluster_id,
        series_key,
        pod_uid,
        true as is_request
    from scheduled

),

pod_runs as (

    select
        pod_series.cluster_id,
        pod_series.pod_uid,
        pod_series.is_request,
        runs.hour_second,
        runs.first_sampled_ms,
        runs.last_sampled_ms
    from runs
    inner join pod_series
        on
            runs.series_key = pod_series.series_key
            and runs.cluster_id = pod_series.cluster_id

),

-- Several containers, replicas and restarted exporters sample the same request more than once.
requested as (

    select distinct
        cluster_id,
        pod_uid,
        hour_second,
        first_sampled_ms,
        last_sampled_ms
    from pod_runs
    where is_request

),

running as (

    select distinct
        cluster_id,
        pod_uid,
        hour_second,
        first_sampled_ms,
        last_sampled_ms
    from pod_runs
    where not is_request

),

phase_hours as (

    select distinct
        cluster_id,
        hour_second
    from runs
    where metric = 'kube_pod_status_phase'

),

-- Without a journal, a pod that has lost its phase among others that have theirs is disputed
-- (`int_pod_contradictions`) for as long as it requests devices.
without_phase as (

    select distinct
        requested.cluster_id,
        requested.pod_uid,
        requested.first_sampled_ms,
        requested.last_sampled_ms
    from requested
    inner join phase_hours
        on
            requested.cluster_id = phase_hours.cluster_id
            and requested.hour_second = phase_hours.hour_second
    left join {{ ref('int_cluster_windows') }} as watched
        on
            requested.cluster_id = watched.cluster_id
            and watched.expects_journal
    left join series as phases
        on
            requested.cluster_id = phases.cluster_id
            and requested.pod_uid = phases.pod_uid
            and phases.metric = 'kube_pod_status_phase'
    where phases.pod_uid is null and watched.cluster_id is null

),

-- A request that lingers after the end, or before the start, is no sample of an allocation.
both_sampled as (

    select
        requested.cluster_id,
        requested.pod_uid,
        greatest(requested.first_sampled_ms, running.first_sampled_ms) as first_sampled_ms,
        least(requested.last_sampled_ms, running.last_sampled_ms) as last_sampled_ms
    from requested
    inner join running
        on
            requested.cluster_id = running.cluster_id
            and requested.pod_uid = running.pod_uid
            and requested.hour_second = running.hour_second
            and requested.first_sampled_ms <= running.last_sampled_ms
            and running.first_sampled_ms <= requested.last_sampled_ms

)

-- Equal intervals are one: the order of their ends, by which spans are numbered, is then complete.
select * from both_sampled
union
select * from without_phase
