{{ config(materialized='ephemeral') }}

with

unsampled as (

    select *
    from {{ ref('int_unsampled_pieces') }}
    where is_hole or ended_second - started_second <= agreement_seconds

),

absences as (

    select * from {{ ref('int_absences') }}

),

-- No metric shows what a pod got through a claim.
never_shown as (

    select distinct claimed.pod_number
    from {{ ref('int_claimed_devices') }} as claimed
    left join {{ ref('int_journal_requests') }} as requests
        on claimed.pod_number = requests.pod_number
    where requests.pod_number is null

),

looked_for as (

    select
        pod_number,
        stretch_kind,
        agreement_seconds,
        is_hole,
        started_second,
        ended_second
    from unsampled
    union all
    select
        pod_number,
        stretch_kind,
        agreement_seconds,
        is_hole,
        started_second,
        ended_second
    from absences

),

judged as (

    select
        looked_for.pod_number,
        case
            when never_shown.pod_number is not null then 'lifecycle_only'
            when is_hole then 'lifecycle_only'
            when ended_second - started_second > agreement_seconds then 'disputed'
            when stretch_kind = 'never_sampled' then 'lifecycle_only'
            else 'confirmed'
        end as method,
        case
            when never_shown.pod_number is not null then 'no_metric'
            when is_hole then 'hole'
            when ended_second - started_second > agreement_seconds then 'absent'
            when stretch_kind = 'never_sampled' then 'too_short'
            else 'agree'
        end as method_reason,
        started_second,
        ended_second,
        0 as uncertainty_before_seconds,
        0 as uncertainty_after_seconds
    from looked_for
    left join never_shown
        on looked_for.pod_number = never_shown.pod_number

)

select * from judged
