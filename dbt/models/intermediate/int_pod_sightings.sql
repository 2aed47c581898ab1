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

),

series as (

    select * from {{ ref('int_series') }}

),

resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

requested as (

    select distinct
        runs.cluster_id,
        series.pod_uid,
        runs.hour_second,
        runs.first_sampled_ms,
        runs.last_sampled_ms
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_id = series.series_id
    inner join resources
        on series.resource = resources.resource
    where
        series.metric like 'kube_pod_%container_resource_requests'
        and runs.sample_quantity > 0

),

running as (

    select distinct
        runs.cluster_id,
        series.pod_uid,
        runs.hour_second,
        runs.first_sampled_ms,
        runs.last_sampled_ms
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_id = series.series_id
    where
        series.metric = 'kube_pod_status_phase'
        and series.phase = 'Running'
        and runs.sample_quantity = 1

),

-- A request that lingers after the end, or before the start, is no sample of an allocation.
both_seen as (

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

select * from both_seen
