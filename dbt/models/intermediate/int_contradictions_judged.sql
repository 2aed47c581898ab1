{{ config(materialized='ephemeral') }}

with

stretches as (

    select * from {{ ref('int_allocation_stretches') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

watch_stretches as (

    select * from {{ ref('int_watch_stretches') }}

),

-- Where the samples speak and the journal does not: was anybody watching? Whoever was said when
-- the pod started; no start is in doubt there, but whose word is taken.
watched_for as (

    select
        stretches.pod_number,
        stretches.stretch_kind,
        watch_stretches.is_watched,
        greatest(stretches.started_second, watch_stretches.started_second) as started_second,
        least(stretches.ended_second, watch_stretches.ended_second) as ended_second,
        case
            when
                stretches.started_second >= watch_stretches.started_second
                and not (watch_stretches.is_watched and stretches.stretch_kind = 'outside')
                then stretches.uncertainty_before_seconds
            else 0
        end as uncertainty_before_seconds,
        case
            when stretches.ended_second <= watch_stretches.ended_second
                then stretches.uncertainty_after_seconds
            else 0
        end as uncertainty_after_seconds
    from stretches
    inner join windows
        on stretches.window_number = windows.window_number
    inner join watch_stretches
        on
            windows.cluster_id = watch_stretches.cluster_id
            and stretches.started_second < watch_stretches.ended_second
            and watch_stretches.started_second
            < greatest(stretches.ended_second, stretches.started_second + 1)
    where stretches.stretch_kind in ('outside', 'unknown_uid')

),

judged as (

    select
        pod_number,
        case when is_watched then 'disputed' else 'samples_only' end as method,
        case
            when is_watched and stretch_kind = 'outside' then 'outside_lifecycle'
            when is_watched then 'unknown_uid'
            else 'journal_gap'
        end as method_reason,
        started_second,
        ended_second,
        uncertainty_before_seconds,
        uncertainty_after_seconds
    from watched_for

)

select * from judged
