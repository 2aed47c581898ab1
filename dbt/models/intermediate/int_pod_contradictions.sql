with

runs as (

    select
        cluster_id,
        series_key,
        min(sample_quantity) as smallest_quantity,
        max(sample_quantity) as largest_quantity,
        {{ whole_quotient('min(first_sampled_ms)', 1000) }} as first_sampled_second,
        {{ whole_quotient('max(last_sampled_ms)', 1000) }} as last_sampled_second
    from {{ ref('int_pod_sample_runs') }}
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

requests as (

    select
        *,
        count(journal_device_count) over (partition by cluster_id, pod_uid) > 0 as is_in_journal
    from {{ ref('int_requests') }}
    where claim_uid = ''

),

label_runs as (

    select distinct
        runs.cluster_id,
        runs.hour_second,
        {{ label('series.labels', 'node') }} as node_name,
        series.labels_sha256,
        runs.first_sampled_ms,
        runs.last_sampled_ms
    from {{ ref('int_sample_runs') }} as runs
    inner join {{ ref('stg_thanos__series') }} as series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    where runs.metric = 'kube_node_labels' and series.metric = 'kube_node_labels'

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

pod_samples as (

    select distinct
        pod_series.cluster_id,
        pod_series.pod_uid,
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
    from {{ ref('int_pod_series') }} as pod_series
    inner join runs
        on
            pod_series.cluster_id = runs.cluster_id
            and pod_series.series_key = runs.series_key
    inner join series
        on
            pod_series.cluster_id = series.cluster_id
            and pod_series.series_key = series.series_key

),

sampled_times as (

    select
        cluster_id,
        pod_uid,
        min(first_sampled_second) as first_sampled_second,
        min(case when metric = 'requests' then first_sampled_second end)
            as first_request_second,
        max(case when metric = 'requests' then last_sampled_second end)
            as last_request_second,
        min(case when metric = 'kube_pod_status_phase' then first_sampled_second end)
            as first_phase_second,
        max(case when metric = 'kube_pod_status_phase' then last_sampled_second end)
            as last_phase_second,
        min(case when metric = 'kube_pod_container_state_started' then smallest_quantity end)
            as started_second
    from pod_samples
    group by cluster_id, pod_uid

),

-- The namespace, name and node of a pod never change.
stated_names as (

    select
        cluster_id,
        pod_uid,
        namespace,
        pod_name,
        node_name
    from pod_samples
    union all
    select
        journal.cluster_id,
        journal.pod_uid,
        journal.namespace,
        journal.pod_name,
        journal.node_name
    from {{ ref('int_pods_from_journal') }} as journal
    inner join sampled_times
        on
            journal.cluster_id = sampled_times.cluster_id
            and journal.pod_uid = sampled_times.pod_uid

),

different_names as (

    select
        cluster_id,
        pod_uid,
        min(nullif(namespace, '')) as first_namespace,
        max(nullif(namespace, '')) as last_namespace,
        min(nullif(pod_name, '')) as first_pod_name,
        max(nullif(pod_name, '')) as last_pod_name,
        min(nullif(node_name, '')) as first_node_name,
        max(nullif(node_name, '')) as last_node_name
    from stated_names
    group by cluster_id, pod_uid

),

contradicting_names as (

    {% for contradiction, name in [
        ('namespaces_differ', 'namespace'),
        ('pod_names_differ', 'pod_name'),
        ('nodes_differ', 'node_name'),
    ] %}
        select
            cluster_id,
            pod_uid,
            '{{ contradiction }}' as contradiction,
            first_{{ name }} as before_value,
            last_{{ name }} as after_value
        from different_names
        where first_{{ name }} <> last_{{ name }}
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

-- Pods of clusters without a journal: only samples show when they ran.
pods_without_journal as (

    select distinct
        sampled_times.*,
        gaps.cluster_id is not null as is_beside_gap,
        windows.window_started_second,
        windows.agreement_seconds
    from sampled_times
    inner join windows
        on
            sampled_times.cluster_id = windows.cluster_id
            and not windows.expects_journal
    left join gaps
        on
            sampled_times.cluster_id = gaps.cluster_id
            and gaps.started_second <= sampled_times.last_request_second
            and sampled_times.first_sampled_second - windows.agreement_seconds <= gaps.ended_second

),

-- Phases and requests are sampled together, and no container starts before its pod.
contradicting_times as (

    select
        cluster_id,
        pod_uid,
        'phases_missing' as contradiction,
        cast(last_request_second - first_request_second as string) || ' s of requests'
            as before_value,
        cast(coalesce(last_phase_second - first_phase_second, 0) as string) || ' s of phases'
            as after_value
    from pods_without_journal
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
        cluster_id,
        pod_uid,
        'starts_differ' as contradiction,
        cast(started_second as string) as before_value,
        cast(first_sampled_second as string) as after_value
    from pods_without_journal
    where
        not is_beside_gap
        and started_second < first_sampled_second - agreement_seconds
        and first_sampled_second - agreement_seconds > window_started_second

),

-- The requests of a container do not change while its pod exists.
contradicting_requests as (

    select
        cluster_id,
        pod_uid,
        'requests_differ' as contradiction,
        cast(min(smallest_quantity) as string) as before_value,
        cast(max(largest_quantity) as string) as after_value
    from pod_samples
    where metric = 'requests' and smallest_quantity is not null
    group by cluster_id, pod_uid, is_init, container_name, resource
    having min(smallest_quantity) <> max(largest_quantity)

),

-- The counts of the scheduler do not depend on kube-state-metrics.
contradicting_schedulers as (

    select
        cluster_id,
        pod_uid,
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
    from requests
    where
        scheduler_device_count_max <> container_device_count
        or scheduler_device_count_min <> container_device_count

),

contradicting_sources as (

    select
        cluster_id,
        pod_uid,
        'sources_differ' as contradiction,
        cast(coalesce(journal_device_count, 0) as string) as before_value,
        cast(container_device_count as string) as after_value
    from requests
    where
        is_in_journal
        and container_device_count > 0
        and container_device_count <> coalesce(journal_device_count, 0)

),

-- Two replicas of a server may show a change of labels up to one sampling interval apart.
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
        requests.cluster_id,
        requests.pod_uid,
        'product_labels_differ' as contradiction,
        least(
            one_kind.gpu_class || ' ' || one_kind.mig_profile,
            other_kind.gpu_class || ' ' || other_kind.mig_profile
        ) as before_value,
        greatest(
            one_kind.gpu_class || ' ' || one_kind.mig_profile,
            other_kind.gpu_class || ' ' || other_kind.mig_profile
        ) as after_value
    from requests
    inner join windows
        on requests.cluster_id = windows.cluster_id
    inner join label_pairs
        on
            requests.cluster_id = label_pairs.cluster_id
            and requests.node_name = label_pairs.node_name
            and label_pairs.started_second - windows.sample_interval_seconds
            <= requests.first_sampled_second
            and requests.first_sampled_second
            <= label_pairs.ended_second + windows.sample_interval_seconds
    inner join {{ ref('stg_devices__kinds') }} as one_kind
        on
            label_pairs.labels_sha256 = one_kind.labels_sha256
            and requests.sampled_resource = one_kind.resource
    inner join {{ ref('stg_devices__kinds') }} as other_kind
        on
            label_pairs.other_labels_sha256 = other_kind.labels_sha256
            and requests.sampled_resource = other_kind.resource
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
    contradictions.cluster_id,
    contradictions.pod_uid,
    contradictions.contradiction,
    contradictions.before_value,
    contradictions.after_value,
    sampled_times.first_sampled_second
from contradictions
inner join sampled_times
    on
        contradictions.cluster_id = sampled_times.cluster_id
        and contradictions.pod_uid = sampled_times.pod_uid
