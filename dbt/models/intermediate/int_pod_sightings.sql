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
    from {{ ref('int_sampled_pod_series') }}
    where metric in ('requests', 'kube_pod_status_phase')

),

-- The scheduler names no UID; what it counts stands for requests that are not sampled.
scheduled as (

    select distinct
        phases.cluster_id,
        phases.pod_number,
        scheduler_series.series_key
    from series as phases
    inner join {{ ref('stg_thanos__series') }} as phase_series
        on
            phases.cluster_id = phase_series.cluster_id
            and phases.series_key = phase_series.series_key
    inner join {{ ref('stg_thanos__series') }} as scheduler_series
        on
            phases.cluster_id = scheduler_series.cluster_id
            and scheduler_series.metric = 'kube_pod_resource_request'
            and phase_series.pod_name = scheduler_series.pod_name
            and {{ label('phase_series.labels', 'namespace') }}
            = {{ label('scheduler_series.labels', 'namespace') }}
    left join series as requests
        on
            phases.pod_number = requests.pod_number
            and requests.metric = 'requests'
    where phases.metric = 'kube_pod_status_phase' and requests.pod_number is null

),

pod_series as (

    select
        cluster_id,
        series_key,
        pod_number,
        metric = 'requests' as is_request
    from series
    union all
    select
        cluster_id,
        series_key,
        pod_number,
        true as is_request
    from scheduled

),

pod_runs as (

    select
        pod_series.pod_number,
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

-- Several containers, replicas and restarted exporters say the same thing more than once.
requested as (

    select distinct
        pod_number,
        hour_second,
        first_sampled_ms,
        last_sampled_ms
    from pod_runs
    where is_request

),

running as (

    select distinct
        pod_number,
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
        requested.pod_number,
        requested.first_sampled_ms,
        requested.last_sampled_ms
    from requested
    inner join {{ ref('int_pods') }} as pods
        on requested.pod_number = pods.pod_number
    inner join phase_hours
        on
            pods.cluster_id = phase_hours.cluster_id
            and requested.hour_second = phase_hours.hour_second
    left join {{ ref('int_cluster_windows') }} as watched
        on
            pods.cluster_id = watched.cluster_id
            and watched.expects_journal
    left join series as phases
        on
            requested.pod_number = phases.pod_number
            and phases.metric = 'kube_pod_status_phase'
    where phases.pod_number is null and watched.cluster_id is null

),

-- A request that lingers after the end, or before the start, is no sample of an allocation.
both_seen as (

    select
        requested.pod_number,
        greatest(requested.first_sampled_ms, running.first_sampled_ms) as first_sampled_ms,
        least(requested.last_sampled_ms, running.last_sampled_ms) as last_sampled_ms
    from requested
    inner join running
        on
            requested.pod_number = running.pod_number
            and requested.hour_second = running.hour_second
            and requested.first_sampled_ms <= running.last_sampled_ms
            and running.first_sampled_ms <= requested.last_sampled_ms

)

select * from both_seen
union all
select * from without_phase
