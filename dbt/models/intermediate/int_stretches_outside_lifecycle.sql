{{ config(materialized='ephemeral') }}

with

witnesses as (

    select * from {{ ref('int_pod_witnesses') }}

),

early as (

    select
        pod_number,
        window_number,
        'outside' as stretch_kind,
        first_sampled_second as started_second,
        least(started_second, last_sampled_second) as ended_second
    from witnesses
    where first_sampled_second < started_second - {{ clock_tolerance_seconds() }}

),

-- Also where the journal lost the end: by then it would have known of the pod.
late as (

    select
        pod_number,
        window_number,
        'outside' as stretch_kind,
        greatest(ended_by_second, first_sampled_second) as started_second,
        last_sampled_second as ended_second
    from witnesses
    where last_sampled_second > ended_by_second + {{ clock_tolerance_seconds() }}

),

outside as (

    select * from early
    union all
    select * from late

)

select * from outside
