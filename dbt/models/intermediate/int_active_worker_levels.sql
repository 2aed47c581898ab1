with

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

ready_runs as (

    select
        runs.cluster_id,
        series.node_name,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as first_sampled_second,
        {{ whole_quotient('runs.last_sampled_ms', 1000) }} as last_sampled_second,
        {{ whole_quotient('lead(runs.first_sampled_ms) over one_node', 1000) }}
            as next_sampled_second,
        runs.sample_quantity = 1 as is_ready
    from {{ ref('int_sample_runs') }} as runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    where
        runs.metric = 'kube_node_status_condition'
        and runs.sample_quantity is not null
        and series.node_condition = 'Ready'
        and series.condition_status = 'true'
    window
        one_node as (
            partition by runs.cluster_id, series.node_name order by runs.first_sampled_ms
        )

),

-- If later samples of the cluster do not have the node, it was removed. A gap of the samples leaves
-- its state unchanged.
removals as (

    select
        ready_runs.cluster_id,
        ready_runs.node_name,
        ready_runs.last_sampled_second + windows.sample_interval_seconds as observed_second,
        false as is_ready
    from ready_runs
    inner join windows
        on
            ready_runs.cluster_id = windows.cluster_id
            and ready_runs.last_sampled_second >= windows.window_started_second
            and ready_runs.last_sampled_second < windows.window_ended_second
    inner join sampling_intervals
        on
            windows.window_number = sampling_intervals.window_number
            and ready_runs.last_sampled_second + 2 * windows.sample_interval_seconds
            >= sampling_intervals.started_second
            and ready_runs.last_sampled_second + 2 * windows.sample_interval_seconds
            < sampling_intervals.ended_second
    where
        coalesce(ready_runs.next_sampled_second, {{ end_of_time() }})
        > ready_runs.last_sampled_second + 2 * windows.sample_interval_seconds

),

sampled_states as (

    select
        cluster_id,
        node_name,
        first_sampled_second as observed_second,
        is_ready
    from ready_runs
    union all
    select * from removals

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

observations as (

    select * from journal
    union all
    select
        sampled_states.cluster_id,
        sampled_states.node_name,
        sampled_states.observed_second,
        cast(0 as bigint) as journal_position,
        sampled_states.is_ready,
        workers.node_name is not null as is_worker,
        'thanos' as source
    from sampled_states
    left join workers
        on
            sampled_states.cluster_id = workers.cluster_id
            and sampled_states.node_name = workers.node_name

),

-- The journal is preferred: it has a change at its time, samples have it at the next scrape.
ranked_observations as (

    select
        *,
        min(source) over (partition by cluster_id, node_name) as best_source
    from observations

),

observed_seconds as (

    select
        cluster_id,
        node_name,
        observed_second,
        case when is_ready and is_worker then 1 else 0 end as is_active,
        row_number() over (
            partition by cluster_id, node_name, observed_second
            order by journal_position desc, is_ready desc
        ) as recency
    from ranked_observations
    where source = best_source

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

-- Before its first observation, a node did not exist.
changes as (

    select
        cluster_id,
        observed_second as changed_second,
        is_active - lag(is_active, 1, 0) over (
            partition by cluster_id, node_name order by observed_second
        ) as worker_change
    from observed_seconds
    where recency = 1
    union all
    -- A change by 0 at the start of each hour gives the hour a row with the number at its start.
    select
        cluster_id,
        measured_from_second as changed_second,
        0 as worker_change
    from hours

),

instants as (

    select
        cluster_id,
        changed_second,
        sum(worker_change) as worker_change
    from changes
    group by cluster_id, changed_second

),

levels as (

    select
        cluster_id,
        changed_second,
        sum(worker_change) over (
            partition by cluster_id
            order by changed_second
            rows between unbounded preceding and current row
        ) as active_workers
    from instants

),

level_intervals as (

    select
        levels.cluster_id,
        hours.hour_second,
        levels.changed_second as started_second,
        cast(levels.active_workers as bigint) as active_workers
    from levels
    inner join hours
        on
            levels.cluster_id = hours.cluster_id
            and levels.changed_second >= hours.measured_from_second
            and levels.changed_second < hours.measured_until_second

)

select * from level_intervals
