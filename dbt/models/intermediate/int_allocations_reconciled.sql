with

stretches as (

    select * from {{ ref('int_allocation_stretches') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

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

watch_stretches as (

    select * from {{ ref('int_watch_stretches') }}

),

lives as (

    select * from {{ ref('int_allocations_from_lifecycle') }}

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

-- Where the samples speak and the journal does not: was anybody watching?
watched_for as (

    select
        stretches.pod_number,
        stretches.stretch_kind,
        watch_stretches.is_watched,
        greatest(stretches.started_second, watch_stretches.started_second) as started_second,
        least(stretches.ended_second, watch_stretches.ended_second) as ended_second,
        case
            when stretches.started_second >= watch_stretches.started_second
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
    union all
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
    union all
    select
        pod_number,
        case stretch_kind
            when 'agreed' then 'confirmed'
            when 'not_expected' then 'lifecycle_only'
            when 'gap' then 'lifecycle_only'
            when 'samples_alone' then 'samples_only'
            when 'open_end' then case
                when started_second < ended_second then 'samples_only' else 'missing'
            end
        end as method,
        case stretch_kind
            when 'agreed' then 'agree'
            when 'not_expected' then 'samples_not_expected'
            when 'gap' then 'hole'
            when 'samples_alone' then 'journal_not_expected'
            when 'open_end' then case
                when started_second < ended_second then 'journal_gap' else 'end_unknown'
            end
        end as method_reason,
        started_second,
        ended_second,
        uncertainty_before_seconds,
        uncertainty_after_seconds
    from stretches
    where stretch_kind in ('agreed', 'not_expected', 'gap', 'samples_alone', 'open_end')

),

held as (

    select
        lives.pod_number,
        greatest(lives.bound_second, windows.window_started_second) as started_second,
        least(
            coalesce(lives.started_second, lives.known_until_second), windows.due_until_second
        ) as ended_second
    from lives
    inner join windows
        on
            lives.cluster_id = windows.cluster_id
            and windows.expects_journal
    where lives.bound_second is not null

),

reconciled as (

    select
        pod_number,
        'running' as allocation_state,
        method,
        method_reason,
        started_second,
        ended_second,
        uncertainty_before_seconds,
        uncertainty_after_seconds,
        case
            when
                method in ('confirmed', 'lifecycle_only')
                or method_reason = 'absent'
                then ended_second - started_second
            else 0
        end as lifecycle_seconds,
        case
            when
                method in ('confirmed', 'samples_only')
                or method_reason in ('outside_lifecycle', 'unknown_uid')
                then ended_second - started_second
            else 0
        end as sampled_seconds
    from judged
    union all
    select
        pod_number,
        'held' as allocation_state,
        'lifecycle_only' as method,
        'held' as method_reason,
        started_second,
        ended_second,
        0 as uncertainty_before_seconds,
        0 as uncertainty_after_seconds,
        ended_second - started_second as lifecycle_seconds,
        0 as sampled_seconds
    from held
    where started_second < ended_second

)

select * from reconciled
