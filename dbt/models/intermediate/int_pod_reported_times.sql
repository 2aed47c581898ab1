with

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where metric in ('kube_pod_container_state_started', 'kube_pod_completion_time')

),

series as (

    select * from {{ ref('int_sampled_pod_series') }}

),

-- A restarted container reports a later start; the earliest one ever reported counts.
pods as (

    select
        series.pod_number,
        min(
            case
                when series.metric = 'kube_pod_container_state_started' then runs.sample_quantity
            end
        ) as container_started_second,
        max(
            case when series.metric = 'kube_pod_completion_time' then runs.sample_quantity end
        ) as completed_second
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    group by series.pod_number

)

select * from pods
