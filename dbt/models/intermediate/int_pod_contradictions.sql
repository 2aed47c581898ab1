with

pod_series as (

    select distinct
        cluster_id,
        series_key,
        metric,
        pod_number
    from {{ ref('int_sampled_pod_series') }}

),

runs as (

    select
        cluster_id,
        series_key,
        min(sample_quantity) as smallest_quantity,
        max(sample_quantity) as largest_quantity,
        {{ whole_quotient('min(first_sampled_ms)', 1000) }} as first_sampled_second,
        {{ whole_quotient('max(last_sampled_ms)', 1000) }} as last_sampled_second
    from {{ ref('int_sample_runs') }}
    where metric like 'kube_pod_%'
    group by cluster_id, series_key

),

series as (

    select distinct
        cluster_id,
        series_key,
        coalesce(nullif({{ label('labels', 'exported_pod') }}, ''), pod_name) as pod_name,
        metric,
        {{ first_label(['exported_namespace', 'namespace']) }} as namespace,
        {{ label('labels', 'node') }} as node_name,
        {{ first_label(['exported_container', 'container']) }} as container_name,
        {{ label('labels', 'resource') }} as resource
    from {{ ref('stg_thanos__series') }}
    where metric like 'kube_pod_%'

),

pods as (

    select * from {{ ref('int_pods') }}

),

observed as (

    select * from {{ ref('int_pods_observed') }}

),

sampled_requests as (

    select * from {{ ref('int_sampled_requests') }}

),

journal_requests as (

    select * from {{ ref('int_journal_requests') }}

),

label_series as (

    select distinct
        cluster_id,
        series_key,
        labels_sha256,
        {{ label('labels', 'node') }} as node_name
    from {{ ref('stg_thanos__series') }}
    where metric = 'kube_node_labels'

),

label_runs as (

    select
        runs.cluster_id,
        runs.hour_second,
        label_series.node_name,
        label_series.labels_sha256,
        runs.first_sampled_ms,
        runs.last_sampled_ms
    from {{ ref('int_sample_runs') }} as runs
    inner join label_series
        on
            runs.cluster_id = label_series.cluster_id
            and runs.series_key = label_series.series_key
    where runs.metric = 'kube_node_labels'

),

windows as (

    select
        cluster_id,
        min(window_started_second) as window_started_second,
        max(case when expects_journal then 1 else 0 end) = 1 as expects_journal,
        max(agreement_seconds) as agreement_seconds,
        max(sample_interval_seconds) as sample_interval_seconds
    from {{ ref('int_cluster_windows') }}
    group by cluster_id

),

gaps as (

    select *
    from {{ ref('int_sample_gaps') }}
    where metric in ('', 'kube_pod_container_resource_requests', 'kube_pod_status_phase')

),

kinds as (

    select * from {{ ref('stg_devices__kinds') }}

),

sampled as (

    select
        pod_series.pod_number,
        pod_series.metric,
        series.metric = 'kube_pod_init_container_resource_requests' as is_init,
        series.namespace,
        series.pod_name,
        series.node_name,
        series.container_name,
        series.resource,
        runs.smallest_quantity,
        runs.largest_quantity,
        runs.first_sampled_second,
        runs.last_sampled_second
    from pod_series
    inner join runs
        on
            pod_series.cluster_id = runs.cluster_id
            and pod_series.series_key = runs.series_key
    inner join series
        on
            pod_series.cluster_id = series.cluster_id
            and pod_series.series_key = series.series_key

),

first_sampled as (

    select
        pod_number,
        min(first_sampled_second) as first_sampled_second
    from sampled
    group by pod_number

),

-- A pod has one namespace, one name and one node for as long as it lives.
named as (

    select
        pod_number,
        namespace,
        pod_name,
        node_name
    from sampled
    union all
    select
        pods.pod_number,
        observed.namespace,
        observed.pod_name,
        observed.node_name
    from observed
    inner join pods
        on
            observed.cluster_id = pods.cluster_id
            and observed.pod_uid = pods.pod_uid
    inner join first_sampled
        on pods.pod_number = first_sampled.pod_number

),

contradicting_names as (

    select
        pod_number,
        'namespaces_differ' as contradiction,
        min(namespace) as before_value,
        max(namespace) as after_value
    from named
    where namespace <> ''
    group by pod_number
    having min(namespace) <> max(namespace)
    union all
    select
        pod_number,
        'pod_names_differ' as contradiction,
        min(pod_name) as before_value,
        max(pod_name) as after_value
    from named
    where pod_name <> ''
    group by pod_number
    having min(pod_name) <> max(pod_name)
    union all
    select
        pod_number,
        'nodes_differ' as contradiction,
        min(node_name) as before_value,
        max(node_name) as after_value
    from named
    where node_name <> ''
    group by pod_number
    having min(node_name) <> max(node_name)

),

lives as (

    select
        sampled.pod_number,
        pods.cluster_id,
        min(sampled.first_sampled_second) as first_sampled_second,
        min(case when sampled.metric = 'requests' then sampled.first_sampled_second end)
            as first_request_second,
        max(case when sampled.metric = 'requests' then sampled.last_sampled_second end)
            as last_request_second,
        min(
            case
                when sampled.metric = 'kube_pod_status_phase' then sampled.first_sampled_second
            end
        ) as first_phase_second,
        max(
            case
                when sampled.metric = 'kube_pod_status_phase' then sampled.last_sampled_second
            end
        ) as last_phase_second,
        min(
            case
                when sampled.metric = 'kube_pod_container_state_started'
                    then sampled.smallest_quantity
            end
        ) as started_second
    from sampled
    inner join pods
        on sampled.pod_number = pods.pod_number
    group by sampled.pod_number, pods.cluster_id

),

-- Nothing but its samples tells when such a pod ran.
by_samples_alone as (

    select distinct
        lives.*,
        gaps.cluster_id is not null as is_beside_gap,
        windows.window_started_second,
        windows.agreement_seconds
    from lives
    inner join windows
        on
            lives.cluster_id = windows.cluster_id
            and not windows.expects_journal
    left join gaps
        on
            lives.cluster_id = gaps.cluster_id
            and gaps.started_second <= lives.last_request_second
            and lives.first_sampled_second - windows.agreement_seconds <= gaps.ended_second

),

-- Phases are sampled with the requests, and a container starts in a pod that is there.
contradicting_times as (

    select
        pod_number,
        'phases_missing' as contradiction,
        cast(last_request_second - first_request_second as string) || ' s of requests'
            as before_value,
        cast(coalesce(last_phase_second - first_phase_second, 0) as string) || ' s of phases'
            as after_value
    from by_samples_alone
    where
        (first_phase_second is null and first_request_second is not null)
        or (
            not is_beside_gap
            and (
                first_phase_second - first_request_second > agreement_seconds
                or last_request_second - last_phase_second > agreement_seconds
            )
        )
    union all
    select
        pod_number,
        'starts_differ' as contradiction,
        cast(started_second as string) as before_value,
        cast(first_sampled_second as string) as after_value
    from by_samples_alone
    where
        not is_beside_gap
        and started_second < first_sampled_second - agreement_seconds
        and first_sampled_second - agreement_seconds > window_started_second

),

-- What a container requests does not change while its pod lives.
contradicting_requests as (

    select
        pod_number,
        'requests_differ' as contradiction,
        cast(min(smallest_quantity) as string) as before_value,
        cast(max(largest_quantity) as string) as after_value
    from sampled
    where metric = 'requests' and smallest_quantity is not null
    group by pod_number, is_init, container_name, resource
    having min(smallest_quantity) <> max(largest_quantity)

),

-- The scheduler counts independently of kube-state-metrics.
contradicting_schedulers as (

    select
        pod_number,
        'scheduler_differs' as contradiction,
        cast(container_device_count as string) as before_value,
        cast(
            case
                when scheduler_device_count_max <> container_device_count
                    then scheduler_device_count_max
                else scheduler_device_count_min
            end
            as string
        ) as after_value
    from sampled_requests
    where
        scheduler_device_count_max <> container_device_count
        or scheduler_device_count_min <> container_device_count

),

journal_pods as (

    select distinct pod_number
    from journal_requests

),

contradicting_sources as (

    select
        sampled_requests.pod_number,
        'sources_differ' as contradiction,
        cast(coalesce(journal_requests.device_count, 0) as string) as before_value,
        cast(sampled_requests.container_device_count as string) as after_value
    from sampled_requests
    left join journal_requests
        on
            sampled_requests.pod_number = journal_requests.pod_number
            and sampled_requests.resource_key = journal_requests.resource_key
    inner join journal_pods
        on sampled_requests.pod_number = journal_pods.pod_number
    where
        sampled_requests.container_device_count > 0
        and sampled_requests.container_device_count <> coalesce(journal_requests.device_count, 0)

),

-- Replicas of a server may show a change of labels up to an interval apart.
label_pairs as (

    select
        one.cluster_id,
        one.node_name,
        one.labels_sha256,
        other.labels_sha256 as other_labels_sha256,
        {{ whole_quotient('greatest(one.first_sampled_ms, other.first_sampled_ms)', 1000) }}
            as started_second,
        {{ whole_quotient('least(one.last_sampled_ms, other.last_sampled_ms)', 1000) }}
            as ended_second
    from label_runs as one
    inner join label_runs as other
        on
            one.cluster_id = other.cluster_id
            and one.node_name = other.node_name
            and one.hour_second = other.hour_second
            and one.labels_sha256 < other.labels_sha256
    inner join windows
        on one.cluster_id = windows.cluster_id
    where
        least(one.last_sampled_ms, other.last_sampled_ms)
        - greatest(one.first_sampled_ms, other.first_sampled_ms)
        >= windows.sample_interval_seconds * 1000

),

contradicting_labels as (

    select distinct
        sampled_requests.pod_number,
        'product_labels_differ' as contradiction,
        least(
            one_kind.gpu_class || ' ' || one_kind.mig_profile,
            other_kind.gpu_class || ' ' || other_kind.mig_profile
        ) as before_value,
        greatest(
            one_kind.gpu_class || ' ' || one_kind.mig_profile,
            other_kind.gpu_class || ' ' || other_kind.mig_profile
        ) as after_value
    from sampled_requests
    inner join pods
        on sampled_requests.pod_number = pods.pod_number
    inner join windows
        on pods.cluster_id = windows.cluster_id
    inner join label_pairs
        on
            pods.cluster_id = label_pairs.cluster_id
            and sampled_requests.node_name = label_pairs.node_name
            and label_pairs.started_second - windows.sample_interval_seconds
            <= sampled_requests.first_sampled_second
            and sampled_requests.first_sampled_second
            <= label_pairs.ended_second + windows.sample_interval_seconds
    inner join kinds as one_kind
        on
            label_pairs.labels_sha256 = one_kind.labels_sha256
            and sampled_requests.resource = one_kind.resource
    inner join kinds as other_kind
        on
            label_pairs.other_labels_sha256 = other_kind.labels_sha256
            and sampled_requests.resource = other_kind.resource
    where
        one_kind.gpu_class <> other_kind.gpu_class
        or one_kind.mig_profile <> other_kind.mig_profile
        or one_kind.replica_count <> other_kind.replica_count

),

contradictions as (

    select * from contradicting_names
    union all
    select * from contradicting_times
    union all
    select * from contradicting_requests
    union all
    select * from contradicting_schedulers
    union all
    select * from contradicting_sources
    union all
    select * from contradicting_labels

)

select distinct
    contradictions.pod_number,
    contradictions.contradiction,
    contradictions.before_value,
    contradictions.after_value,
    first_sampled.first_sampled_second
from contradictions
inner join first_sampled
    on contradictions.pod_number = first_sampled.pod_number
