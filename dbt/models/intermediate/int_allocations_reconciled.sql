with

stretches as (

    select *
    from {{ ref('int_allocation_stretches') }}
    where
        stretch_kind in (
            'agreed', 'not_expected', 'gap', 'samples_alone', 'sampled_end', 'open_end'
        )

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

lives as (

    select * from {{ ref('int_allocations_from_lifecycle') }}

),

-- The kind of these alone says what they are; of the others somebody had to look.
judged as (

    select * from {{ ref('int_absences_judged') }}
    union all
    select * from {{ ref('int_contradictions_judged') }}
    union all
    select
        pod_number,
        case stretch_kind
            when 'agreed' then 'confirmed'
            when 'not_expected' then 'lifecycle_only'
            when 'gap' then 'lifecycle_only'
            when 'samples_alone' then 'samples_only'
            when 'sampled_end' then 'samples_only'
            when 'open_end' then case
                when started_second < ended_second then 'samples_only' else 'missing'
            end
        end as method,
        case stretch_kind
            when 'agreed' then 'agree'
            when 'not_expected' then 'samples_not_expected'
            when 'gap' then 'hole'
            when 'samples_alone' then 'journal_not_expected'
            when 'sampled_end' then 'journal_gap'
            when 'open_end' then case
                when started_second < ended_second then 'journal_gap' else 'end_unknown'
            end
        end as method_reason,
        started_second,
        ended_second,
        uncertainty_before_seconds,
        uncertainty_after_seconds
    from stretches

),

first_running as (

    select
        pod_number,
        min(started_second) as started_second
    from judged
    where method <> 'missing'
    group by pod_number

),

-- What runs by either witness, or is disputed, is not held besides.
held as (

    select
        lives.pod_number,
        greatest(lives.bound_second, windows.window_started_second) as started_second,
        least(
            coalesce(lives.started_second, lives.known_until_second),
            coalesce(first_running.started_second, {{ end_of_time() }}),
            windows.due_until_second
        ) as ended_second
    from lives
    left join first_running
        on lives.pod_number = first_running.pod_number
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
