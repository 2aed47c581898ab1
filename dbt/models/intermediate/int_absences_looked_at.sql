{{ config(materialized='ephemeral') }}

with

pieces as (

    select *
    from {{ ref('int_unsampled_pieces') }}
    where not is_hole and ended_second - started_second > agreement_seconds

),

series as (

    select * from {{ ref('int_sampled_pod_series') }}

),

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where metric like 'kube_pod_%'

),

mass_endings as (

    select * from {{ ref('int_mass_endings') }}

),

absent_series as (

    select
        series.cluster_id,
        series.series_key,
        series.metric,
        series.pod_number
    from series
    inner join (select distinct pod_number from pieces) as absent
        on series.pod_number = absent.pod_number

),

absent_runs as (

    select
        absent_series.pod_number,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as first_sampled_second,
        {{ whole_quotient('runs.last_sampled_ms', 1000) }} as last_sampled_second,
        absent_series.metric = 'kube_pod_status_phase' and runs.sample_quantity = 0
            as is_not_running
    from runs
    inner join absent_series
        on
            runs.cluster_id = absent_series.cluster_id
            and runs.series_key = absent_series.series_key

),

-- A pod of which something else goes on being sampled has a hole and not an end, unless its phase
-- says that it does not run.
looked as (

    select
        pieces.pod_number,
        pieces.window_number,
        pieces.stretch_kind,
        pieces.agreement_seconds,
        pieces.started_second,
        pieces.ended_second,
        max(pieces.sample_interval_seconds) as sample_interval_seconds,
        max(case when absent_runs.is_not_running then 1 else 0 end) = 1 as is_seen_not_running,
        min(absent_runs.first_sampled_second) as first_seen_second,
        max(absent_runs.last_sampled_second) as last_seen_second,
        max(case when mass_endings.window_number is null then 0 else 1 end) = 1 as is_mass_ending
    from pieces
    left join absent_runs
        on
            pieces.pod_number = absent_runs.pod_number
            and pieces.started_second < absent_runs.last_sampled_second
            and absent_runs.first_sampled_second < pieces.ended_second
    left join mass_endings
        on
            pieces.window_number = mass_endings.window_number
            and pieces.started_second = mass_endings.last_sampled_second
    group by
        pieces.pod_number,
        pieces.window_number,
        pieces.stretch_kind,
        pieces.agreement_seconds,
        pieces.started_second,
        pieces.ended_second

)

select * from looked
