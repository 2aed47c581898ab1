with

runs as (

    select *
    from {{ ref('int_pod_sample_runs') }}
    where
        metric in (
            'kube_pod_container_resource_requests',
            'kube_pod_init_container_resource_requests',
            'kube_pod_resource_request',
            'kube_pod_status_phase'
        )
        -- This model does not decide whether a running pod requests a device.
        and (sample_quantity > 0 or metric <> 'kube_pod_status_phase')
        and sample_quantity is not null

),

series as (

    select *
    from {{ ref('int_pod_series') }}
    where metric in ('requests', 'kube_pod_status_phase')

),

-- Series of the scheduler have no UID. Its count replaces requests that are not sampled.
scheduler_counts as (

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
    from scheduler_counts

),

pod_runs as (

    select
        pod_series.cluster_id,
        pod_series.pod_uid,
        pod_series.is_request,
        runs.first_sampled_ms,
        runs.last_sampled_ms
    from runs
    inner join pod_series
        on
            runs.series_key = pod_series.series_key
            and runs.cluster_id = pod_series.cluster_id

),

-- Several containers, replicas and restarted exporters give more than one series of a pod.
events as (

    select
        cluster_id,
        pod_uid,
        first_sampled_ms as event_ms,
        0 as is_end,
        case when is_request then 1 else 0 end as request_change,
        case when is_request then 0 else 1 end as phase_change
    from pod_runs
    union all
    select
        cluster_id,
        pod_uid,
        last_sampled_ms as event_ms,
        1 as is_end,
        case when is_request then -1 else 0 end as request_change,
        case when is_request then 0 else -1 end as phase_change
    from pod_runs

),

changes as (

    select
        cluster_id,
        pod_uid,
        event_ms,
        is_end,
        sum(request_change) as request_change,
        sum(phase_change) as phase_change
    from events
    group by cluster_id, pod_uid, event_ms, is_end

),

levels as (

    select
        cluster_id,
        pod_uid,
        event_ms as first_sampled_ms,
        sum(request_change) over so_far as request_level,
        sum(phase_change) over so_far as phase_level,
        lead(event_ms) over (
            partition by cluster_id, pod_uid order by event_ms, is_end
        ) as last_sampled_ms
    from changes
    window
        so_far as (
            partition by cluster_id, pod_uid order by event_ms, is_end
            rows between unbounded preceding and current row
        )

),

phase_hours as (

    select
        cluster_id,
        min(first_sampled_ms) as first_sampled_ms,
        max(last_sampled_ms) as last_sampled_ms
    from {{ ref('int_sampled_instants') }}
    where metric = 'kube_pod_status_phase'
    group by cluster_id, {{ whole_quotient('first_sampled_ms', 3600000) }}

),

-- In a cluster without a journal, a pod without a phase, while other pods have one, is disputed
-- (`int_pod_contradictions`) during its requests.
times_without_phase as (

    select
        requested.cluster_id,
        requested.pod_uid,
        greatest(requested.first_sampled_ms, phase_hours.first_sampled_ms) as first_sampled_ms,
        least(requested.last_sampled_ms, phase_hours.last_sampled_ms) as last_sampled_ms
    from pod_runs as requested
    inner join phase_hours
        on
            requested.cluster_id = phase_hours.cluster_id
            and requested.first_sampled_ms <= phase_hours.last_sampled_ms
            and phase_hours.first_sampled_ms <= requested.last_sampled_ms
    left join {{ ref('int_cluster_windows') }} as watched
        on
            requested.cluster_id = watched.cluster_id
            and watched.expects_journal
    left join series as phases
        on
            requested.cluster_id = phases.cluster_id
            and requested.pod_uid = phases.pod_uid
            and phases.metric = 'kube_pod_status_phase'
    where requested.is_request and phases.pod_uid is null and watched.cluster_id is null

)

-- A request before the start or after the end of the pod is not a sample of its allocation.
select
    cluster_id,
    pod_uid,
    first_sampled_ms,
    last_sampled_ms
from levels
where request_level > 0 and phase_level > 0
-- Equal intervals are one row, so that the order of the rows is unique.
union
select * from times_without_phase
