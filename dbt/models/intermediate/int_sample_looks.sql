{{ config(materialized='ephemeral') }}

with

instants as (

    select * from {{ ref('int_sampled_instants') }}

),

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples

),

-- '' stands for whatever kube-state-metrics exposes: a hole in it is a hole of everything. The
-- scheduler's metric is another target's, and goes on when kube-state-metrics is down.
metrics as (

    select
        cluster_id,
        metric,
        first_sampled_ms,
        last_sampled_ms
    from instants
    union all
    select
        cluster_id,
        '' as metric,
        first_sampled_ms,
        last_sampled_ms
    from instants
    where metric not in ('up', 'kube_pod_resource_request')

),

expected as (

    select distinct
        cluster_id,
        metric
    from metrics
    union
    select
        cluster_id,
        '' as metric
    from windows

),

-- The look reaches one interval beyond the hours on both sides. Where nothing was landed there, an
-- edge half an interval outside stands for the neighbour: then a first sample counts as late as
-- soon as another one was due inside the hours, and not before, wherever in a minute scrapes fall.
inside as (

    select
        windows.window_number,
        metrics.metric,
        metrics.first_sampled_ms,
        metrics.last_sampled_ms
    from windows
    inner join metrics
        on
            windows.cluster_id = metrics.cluster_id
            and (windows.window_started_second - windows.sample_interval_seconds) * 1000
            <= metrics.last_sampled_ms
            and metrics.first_sampled_ms
            <= (windows.window_ended_second + windows.sample_interval_seconds) * 1000

),

edges as (

    select
        windows.window_number,
        expected.metric,
        windows.window_started_second * 1000 - windows.sample_interval_seconds * 500 as edge_ms
    from windows
    inner join expected
        on windows.cluster_id = expected.cluster_id
    union all
    select
        windows.window_number,
        expected.metric,
        windows.window_ended_second * 1000 + windows.sample_interval_seconds * 500 as edge_ms
    from windows
    inner join expected
        on windows.cluster_id = expected.cluster_id

),

looked as (

    select * from inside
    union all
    select
        window_number,
        metric,
        edge_ms as first_sampled_ms,
        edge_ms as last_sampled_ms
    from edges

)

select * from looked
