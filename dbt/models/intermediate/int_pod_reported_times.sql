with

runs as (

    select *
    from {{ ref('int_pod_sample_runs') }}
    where
        metric in (
            'kube_pod_container_resource_requests',
            'kube_pod_init_container_resource_requests',
            'kube_pod_status_phase',
            'kube_pod_container_state_started',
            'kube_pod_completion_time'
        )

),

series as (

    select * from {{ ref('int_pod_series') }}

),

windows as (

    select
        cluster_id,
        max(agreement_seconds) as agreement_seconds
    from {{ ref('int_cluster_windows') }}
    group by cluster_id

),

-- A restarted container reports a later start; the earliest reported start counts.
pods as (

    select
        series.cluster_id,
        series.pod_uid,
        min(
            case
                when series.metric = 'kube_pod_container_state_started' then runs.sample_quantity
            end
        ) as container_started_second,
        max(
            case when series.metric = 'kube_pod_completion_time' then runs.sample_quantity end
        ) as completed_second,
        abs(
            min(case when series.metric = 'requests' then runs.first_sampled_ms end)
            - min(
                case when series.metric = 'kube_pod_status_phase' then runs.first_sampled_ms end
            )
        ) as first_apart_ms,
        abs(
            max(case when series.metric = 'requests' then runs.last_sampled_ms end)
            - max(case when series.metric = 'kube_pod_status_phase' then runs.last_sampled_ms end)
        ) as last_apart_ms
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    group by series.cluster_id, series.pod_uid

)

-- Requests and phase of a pod come from one scrape. If their times differ, each of them may be
-- wrong by the difference. Longer differences are gaps or contradictions.
select
    pods.cluster_id,
    pods.pod_uid,
    pods.container_started_second,
    pods.completed_second,
    case
        when pods.first_apart_ms <= windows.agreement_seconds * 1000
            then {{ whole_quotient('pods.first_apart_ms + 999', 1000) }}
        else 0
    end as first_apart_seconds,
    case
        when pods.last_apart_ms <= windows.agreement_seconds * 1000
            then {{ whole_quotient('pods.last_apart_ms + 999', 1000) }}
        else 0
    end as last_apart_seconds
from pods
inner join windows
    on pods.cluster_id = windows.cluster_id
