{{ config(materialized='ephemeral') }}

with

witnesses as (

    select * from {{ ref('int_pod_witnesses') }}

),

not_expected as (

    select
        pod_number,
        window_number,
        'not_expected' as stretch_kind,
        started_second,
        known_until_second as ended_second
    from witnesses
    where started_second is not null and not expects_samples

),

never_sampled as (

    select
        pod_number,
        window_number,
        'never_sampled' as stretch_kind,
        started_second,
        known_until_second as ended_second
    from witnesses
    where started_second is not null and expects_samples and first_sampled_second is null

),

unsampled_start as (

    select
        pod_number,
        window_number,
        'unsampled_end' as stretch_kind,
        started_second,
        first_inside_second as ended_second
    from witnesses
    where
        first_sampled_second is not null
        and first_inside_second - started_second > agreement_seconds

),

unsampled_end as (

    select
        pod_number,
        window_number,
        'unsampled_end' as stretch_kind,
        last_inside_second as started_second,
        known_until_second as ended_second
    from witnesses
    where
        last_sampled_second is not null
        and known_until_second - last_inside_second > agreement_seconds

),

unsampled as (

    select * from not_expected
    union all
    select * from never_sampled
    union all
    select * from unsampled_start
    union all
    select * from unsampled_end

)

select * from unsampled
