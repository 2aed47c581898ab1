with

witnesses as (

    select * from {{ ref('int_pod_witnesses') }}

),

sampled_spans as (

    select * from {{ ref('int_pod_sampled_spans') }}

),

certain as (

    select * from {{ ref('int_stretches_without_samples') }}
    union all
    select * from {{ ref('int_stretches_between_samples') }}

),

outside as (

    select * from {{ ref('int_stretches_outside_lifecycle') }}

),

samples_alone as (

    select
        sampled_spans.pod_number,
        sampled_spans.window_number,
        case when witnesses.expects_journal then 'unknown_uid' else 'samples_alone' end
            as stretch_kind,
        sampled_spans.started_second,
        sampled_spans.ended_second,
        sampled_spans.uncertainty_before_seconds,
        sampled_spans.uncertainty_after_seconds
    from sampled_spans
    inner join witnesses
        on
            sampled_spans.pod_number = witnesses.pod_number
            and sampled_spans.window_number = witnesses.window_number
    where witnesses.started_second is null

),

stretches as (

    select
        *,
        cast(0 as bigint) as uncertainty_before_seconds,
        cast(0 as bigint) as uncertainty_after_seconds
    from certain
    where started_second < ended_second
    union all
    select
        *,
        cast(0 as bigint) as uncertainty_after_seconds
    from outside
    where started_second < ended_second
    union all
    select * from {{ ref('int_stretches_left_open') }}
    union all
    select * from samples_alone

)

select * from stretches
