with

looked as (

    select * from {{ ref('int_absences_looked_at') }}

),

bounded as (

    select
        *,
        case
            when is_mass_ending then started_second
            when is_seen_not_running or first_seen_second is null then ended_second
            else greatest(started_second, first_seen_second)
        end as hole_started_second,
        case
            when is_mass_ending then ended_second
            when is_seen_not_running or first_seen_second is null then ended_second
            else least(ended_second, last_seen_second + sample_interval_seconds)
        end as hole_ended_second
    from looked

),

parts as (

    select
        pod_number,
        stretch_kind,
        agreement_seconds,
        false as is_hole,
        started_second,
        hole_started_second as ended_second
    from bounded
    union all
    select
        pod_number,
        stretch_kind,
        agreement_seconds,
        true as is_hole,
        hole_started_second as started_second,
        hole_ended_second as ended_second
    from bounded
    union all
    select
        pod_number,
        stretch_kind,
        agreement_seconds,
        false as is_hole,
        hole_ended_second as started_second,
        ended_second
    from bounded

)

select *
from parts
where started_second < ended_second
