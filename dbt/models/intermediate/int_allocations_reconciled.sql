with

judged as (

    select * from {{ ref('int_stretches_judged') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

lives as (

    select * from {{ ref('int_allocations_from_lifecycle') }}

),

contradicting as (

    select distinct pod_number
    from {{ ref('int_pod_contradictions') }}

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
            windows.window_ended_second
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

-- Evidence that contradicts itself about a pod settles nothing of it until somebody decides.
select
    reconciled.pod_number,
    reconciled.allocation_state,
    case
        when contradicting.pod_number is not null and reconciled.method <> 'missing'
            then 'disputed'
        else reconciled.method
    end as method,
    case
        when contradicting.pod_number is not null and reconciled.method <> 'missing'
            then 'contradicted'
        else reconciled.method_reason
    end as method_reason,
    reconciled.started_second,
    reconciled.ended_second,
    reconciled.uncertainty_before_seconds,
    reconciled.uncertainty_after_seconds,
    reconciled.lifecycle_seconds,
    reconciled.sampled_seconds
from reconciled
left join contradicting
    on reconciled.pod_number = contradicting.pod_number
