{{ config(materialized='ephemeral') }}

with

witnesses as (

    select * from {{ ref('int_pod_witnesses') }}

),

sampled_spans as (

    select * from {{ ref('int_pod_sampled_spans') }}

),

-- A container that started before its first sample reports when: the journal knows a later restart.
early as (

    select
        witnesses.pod_number,
        witnesses.window_number,
        'outside' as stretch_kind,
        sampled_spans.started_second,
        least(witnesses.started_second, witnesses.last_sampled_second) as ended_second,
        sampled_spans.uncertainty_before_seconds
    from witnesses
    inner join sampled_spans
        on
            witnesses.pod_number = sampled_spans.pod_number
            and witnesses.window_number = sampled_spans.window_number
    where
        witnesses.first_sampled_second
        < witnesses.started_second - {{ clock_tolerance_seconds() }}

),

-- Also where the journal lost the end: by then it would have known of the pod.
late as (

    select
        pod_number,
        window_number,
        'outside' as stretch_kind,
        greatest(ended_by_second, first_sampled_second) as started_second,
        last_sampled_second as ended_second,
        cast(0 as bigint) as uncertainty_before_seconds
    from witnesses
    where last_sampled_second > ended_by_second + {{ clock_tolerance_seconds() }}

),

outside as (

    select * from early
    union all
    select * from late

)

select * from outside
