with

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where metric = 'kube_node_status_condition' and sample_quantity is not null

),

series as (

    select distinct
        cluster_id,
        series_key,
        metric,
        {{ label('labels', 'node') }} as node_name,
        {{ label('labels', 'condition') }} as node_condition,
        {{ label('labels', 'status') }} as condition_status,
        {{ label('labels', 'role') }} as node_role
    from {{ ref('stg_thanos__series') }}
    where metric in ('kube_node_status_condition', 'kube_node_role') and label_invalid = ''

),

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples

),

sampling_intervals as (

    select *
    from {{ ref('int_sampling_intervals') }}
    where not is_gap

),

workers as (

    select distinct
        cluster_id,
        node_name
    from series
    where metric = 'kube_node_role' and node_role = 'worker'

),

ready as (

    select
        runs.cluster_id,
        series.node_name,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as first_sampled_second,
        {{ whole_quotient('runs.last_sampled_ms', 1000) }} as last_sampled_second,
        runs.sample_quantity = 1 as is_ready
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    where series.node_condition = 'Ready' and series.condition_status = 'true'

),

followed as (

    select
        *,
        lead(first_sampled_second) over (
            partition by cluster_id, node_name order by first_sampled_second
        ) as next_sampled_second
    from ready

),

-- Where sampling goes on without the node, it is gone; in a gap its state stays.
gone as (

    select
        followed.cluster_id,
        followed.node_name,
        followed.last_sampled_second + windows.sample_interval_seconds as observed_second,
        false as is_ready
    from followed
    inner join windows
        on
            followed.cluster_id = windows.cluster_id
            and followed.last_sampled_second >= windows.window_started_second
            and followed.last_sampled_second < windows.window_ended_second
    inner join sampling_intervals
        on
            windows.window_number = sampling_intervals.window_number
            and followed.last_sampled_second + 2 * windows.sample_interval_seconds
            >= sampling_intervals.started_second
            and followed.last_sampled_second + 2 * windows.sample_interval_seconds
            < sampling_intervals.ended_second
    where
        coalesce(followed.next_sampled_second, {{ end_of_time() }})
        > followed.last_sampled_second + 2 * windows.sample_interval_seconds

),

sampled as (

    select
        cluster_id,
        node_name,
        first_sampled_second as observed_second,
        is_ready
    from ready
    union all
    select * from gone

),

journal as (

    select
        nodes.cluster_id,
        nodes.node_name,
        nodes.observed_second,
        nodes.journal_position,
        nodes.is_ready and not nodes.is_deleted as is_ready,
        {{ list_contains('nodes.node_roles', 'worker') }} as is_worker,
        'kubernetes' as source
    from {{ ref('stg_kubernetes__nodes') }} as nodes
    inner join {{ ref('int_journal_attempts') }} as attempts
        on
            nodes.cluster_id = attempts.cluster_id
            and nodes.attempt_id = attempts.attempt_id

),

observed as (

    select * from journal
    union all
    select
        sampled.cluster_id,
        sampled.node_name,
        sampled.observed_second,
        cast(0 as bigint) as journal_position,
        sampled.is_ready,
        workers.node_name is not null as is_worker,
        'thanos' as source
    from sampled
    left join workers
        on
            sampled.cluster_id = workers.cluster_id
            and sampled.node_name = workers.node_name

),

-- The journal sees a change when it happens, samples see it with the next scrape.
ranked as (

    select
        *,
        min(source) over (partition by cluster_id, node_name) as best_source
    from observed

),

last_of_second as (

    select
        *,
        row_number() over (
            partition by cluster_id, node_name, observed_second
            order by journal_position desc, is_ready desc
        ) as recency
    from ranked
    where source = best_source

),

changes as (

    select
        cluster_id,
        node_name,
        observed_second,
        is_ready and is_worker as is_active,
        lag(is_ready and is_worker) over (
            partition by cluster_id, node_name order by observed_second
        ) as was_active
    from last_of_second
    where recency = 1

),

-- Before a node was first seen, it was not there.
states as (

    select
        cluster_id,
        node_name,
        is_active,
        observed_second as started_second,
        coalesce(
            lead(observed_second) over (
                partition by cluster_id, node_name order by observed_second
            ),
            {{ end_of_time() }}
        ) as ended_second
    from changes
    where was_active is null or was_active <> is_active

)

select
    cluster_id,
    node_name,
    started_second,
    ended_second
from states
where is_active
