with

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where
        metric in (
            'kube_pod_container_resource_requests',
            'kube_pod_init_container_resource_requests',
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

pod_runs as (

    select
        series.pod_number,
        series.metric = 'requests' as is_request,
        runs.hour_second,
        runs.first_sampled_ms,
        runs.last_sampled_ms
    from runs
    inner join series
        on
            runs.series_key = series.series_key
            and runs.cluster_id = series.cluster_id

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
