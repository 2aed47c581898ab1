with

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples and window_started_second < window_ended_second

),

instants as (

    select * from {{ ref('int_sampled_instants') }}

),

series as (

    select distinct
        cluster_id,
        series_key,
        metric,
        {{ label('labels', 'namespace') }} as namespace,
        pod_name,
        {{ label('labels', 'node') }} as node_name
    from {{ ref('stg_thanos__series') }}
    where
        metric in (
            'up',
            'kube_node_info',
            'kube_node_status_capacity',
            'kube_pod_container_resource_requests',
            'kube_pod_init_container_resource_requests',
            'kube_pod_resource_request',
            'kube_pod_resourceclaim_info'
        )

),

runs as (

    select
        cluster_id,
        series_key,
        first_sampled_ms,
        last_sampled_ms
    from {{ ref('int_pod_sample_runs') }}
    union all
    select
        cluster_id,
        series_key,
        first_sampled_ms,
        last_sampled_ms
    from {{ ref('int_sample_runs') }}
    where metric in ('kube_node_info', 'kube_node_status_capacity')

),

-- A pod that requests devices has request series from its first sample to its last sample.
sampled_pods as (

    select
        pods.cluster_id,
        min(runs.first_sampled_ms) as started_ms,
        max(runs.last_sampled_ms) as ended_ms
    from runs
    inner join {{ ref('int_pod_series') }} as pods
        on
            runs.cluster_id = pods.cluster_id
            and runs.series_key = pods.series_key
    group by pods.cluster_id, pods.pod_uid
    having max(case when pods.metric = 'requests' then 1 else 0 end) = 1

),

requesting_pods as (

    select distinct
        cluster_id,
        namespace,
        pod_name
    from series
    where metric like 'kube_pod_%container_resource_requests'

),

-- Pods in the metric of the scheduler whose requests kube-state-metrics does not have, and all
-- nodes.
followed_runs as (

    select
        windows.window_number,
        windows.window_started_second,
        windows.sample_interval_seconds,
        series.cluster_id,
        series.metric,
        series.node_name,
        series.series_key,
        runs.first_sampled_ms as started_ms,
        runs.last_sampled_ms as ended_ms
    from series
    left join requesting_pods
        on
            series.cluster_id = requesting_pods.cluster_id
            and series.namespace = requesting_pods.namespace
            and series.pod_name = requesting_pods.pod_name
    inner join runs
        on
            series.cluster_id = runs.cluster_id
            and series.series_key = runs.series_key
    inner join windows
        on series.cluster_id = windows.cluster_id
    where
        series.metric = 'kube_node_info'
        or (series.metric = 'kube_pod_resource_request' and requesting_pods.pod_name is null)

),

followed_series as (

    {{ joined_intervals(
        'followed_runs',
        ['window_number', 'window_started_second', 'sample_interval_seconds', 'cluster_id',
            'metric', 'node_name', 'series_key'],
        'started_ms',
        'ended_ms',
        is_gap('started_ms - reached', 'sample_interval_seconds')
    ) }}

),

capacity as (

    select
        series.cluster_id,
        series.node_name,
        min(runs.first_sampled_ms) as first_sampled_ms
    from series
    inner join runs
        on
            series.cluster_id = runs.cluster_id
            and series.series_key = runs.series_key
    where series.metric = 'kube_node_status_capacity'
    group by series.cluster_id, series.node_name

),

-- A new node has no devices until its device plugin registers them.
device_nodes as (

    select
        followed_series.window_number,
        case
            when
                followed_series.started_ms
                <= (followed_series.window_started_second + followed_series.sample_interval_seconds)
                * 1000
                then followed_series.started_ms
            else greatest(capacity.first_sampled_ms, followed_series.started_ms)
        end as started_ms,
        followed_series.ended_ms
    from followed_series
    inner join capacity
        on
            followed_series.cluster_id = capacity.cluster_id
            and followed_series.node_name = capacity.node_name
    where followed_series.metric = 'kube_node_info'

),

-- The clock of the journal is another one, and the scrape of a sample may be earlier than the
-- sample.
watched_pods as (

    select
        windows.window_number,
        (
            pods.started_second
            + windows.scrape_interval_seconds
            + {{ clock_tolerance_seconds() }}
        ) * 1000 as started_ms,
        (
            pods.known_until_second
            - windows.scrape_interval_seconds
            - {{ clock_tolerance_seconds() }}
        ) * 1000 as ended_ms
    from {{ ref('int_pods_from_journal') }} as pods
    inner join (
        select distinct
            cluster_id,
            pod_uid
        from {{ ref('int_requests') }}
        where journal_device_count is not null and claim_uid = ''
    ) as requests
        on
            pods.cluster_id = requests.cluster_id
            and pods.pod_uid = requests.pod_uid
    inner join windows
        on pods.cluster_id = windows.cluster_id and windows.expects_journal
    where pods.started_second is not null

),

-- If the allow-list has no request metric, telemetry still names the pods that use devices.
-- Telemetry has hourly values and no requested count, so it is used only if the cluster has no
-- request at all. For a device without a pod, the pod of the series is the exporter's own. Claims
-- occur in no request metric.
telemetry_times as (

    select
        windows.window_number,
        telemetry.hour_second * 1000 as started_ms,
        telemetry.hour_second * 1000 + 3600000 as ended_ms
    from {{ ref('int_device_telemetry') }} as telemetry
    inner join windows
        on telemetry.cluster_id = windows.cluster_id
    left join (
        select distinct cluster_id
        from series
        where metric like 'kube_pod_%request%'
    ) as requested
        on telemetry.cluster_id = requested.cluster_id
    left join (
        select distinct
            cluster_id,
            namespace,
            pod_name
        from series
        where metric in ('up', 'kube_pod_resourceclaim_info')
    ) as others
        on
            telemetry.cluster_id = others.cluster_id
            and telemetry.namespace = others.namespace
            and telemetry.pod_name = others.pod_name
    where
        telemetry.pod_name <> ''
        and greatest(
            coalesce(telemetry.use_maximum, 0),
            coalesce(telemetry.card_use_maximum, 0),
            coalesce(telemetry.sm_active_maximum, 0)
        ) > 0
        and requested.cluster_id is null
        and others.pod_name is null

),

-- The metrics of all pods are due while any metric of kube-state-metrics has a pod.
pod_times as (

    select
        windows.window_number,
        instants.first_sampled_ms as started_ms,
        instants.last_sampled_ms
        -- Two neighbouring samples prove the time between them.
        + windows.sample_interval_seconds * 1000 as ended_ms
    from instants
    inner join windows
        on instants.cluster_id = windows.cluster_id
    where
        instants.metric like 'kube_pod_%' and instants.metric <> 'kube_pod_resource_request'

),

subject_times as (

    select
        windows.window_number,
        'pod with devices' as subject,
        sampled_pods.started_ms,
        sampled_pods.ended_ms
    from sampled_pods
    inner join windows
        on sampled_pods.cluster_id = windows.cluster_id
    union all
    select
        window_number,
        'pod with devices' as subject,
        started_ms,
        ended_ms
    from followed_series
    where metric = 'kube_pod_resource_request'
    union all
    select
        window_number,
        'pod with devices' as subject,
        started_ms,
        ended_ms
    from watched_pods
    union all
    select
        window_number,
        'pod with devices' as subject,
        started_ms,
        ended_ms
    from telemetry_times
    union all
    select
        window_number,
        'pod' as subject,
        started_ms,
        ended_ms
    from pod_times
    union all
    select
        window_number,
        'node with devices' as subject,
        started_ms,
        ended_ms
    from device_nodes

),

-- All other metrics of the cluster, and `up`, are always due.
steady_metrics as (

    select
        cluster_id,
        metric
    from instants
    where
        metric not like 'kube_pod_%'
        and metric not in ('kube_node_status_capacity', 'kube_node_status_allocatable')
    union
    select
        cluster_id,
        'up' as metric
    from windows

),

due_times as (

    select
        subject_times.window_number,
        metrics.metric,
        subject_times.started_ms,
        subject_times.ended_ms
    from subject_times
    inner join (
        values
        ('pod with devices', 'kube_pod_container_resource_requests'),
        ('pod with devices', 'kube_pod_status_phase'),
        ('pod with devices', 'kube_pod_info'),
        ('pod', 'kube_pod_status_phase'),
        ('pod', 'kube_pod_info'),
        ('node with devices', 'kube_node_status_capacity'),
        ('node with devices', 'kube_node_status_allocatable')
    ) as metrics (subject, metric)
        on subject_times.subject = metrics.subject
    union all
    select
        windows.window_number,
        steady_metrics.metric,
        windows.window_started_second * 1000 as started_ms,
        windows.window_ended_second * 1000 as ended_ms
    from windows
    inner join steady_metrics
        on windows.cluster_id = steady_metrics.cluster_id

),

due_intervals as (

    select distinct
        due_times.window_number,
        windows.cluster_id,
        due_times.metric,
        greatest(due_times.started_ms, windows.window_started_second * 1000) as started_ms,
        least(due_times.ended_ms, windows.window_ended_second * 1000) as ended_ms
    from due_times
    inner join windows
        on due_times.window_number = windows.window_number
    where
        greatest(due_times.started_ms, windows.window_started_second * 1000)
        <= least(due_times.ended_ms, windows.window_ended_second * 1000)

)

{{ joined_intervals(
    'due_intervals',
    ['window_number', 'cluster_id', 'metric'],
    'started_ms',
    'ended_ms',
    'started_ms > reached'
) }}
