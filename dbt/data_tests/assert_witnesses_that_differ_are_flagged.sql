-- Invariant 11: of a pod that is confirmed all the time, no sample lies outside of its life by more
-- than the clocks, and none is missing at either end for longer than agreement allows. One sample
-- alone outside of a life is an instant, of which no second can be in dispute.
with

flagged as (

    select distinct pod_number
    from {{ ref('int_allocations_reconciled') }}
    where allocation_state = 'running' and method <> 'confirmed'

),

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples and expects_journal

),

sampled as (

    select
        pod_number,
        window_number,
        min(first_sampled_second) as first_sampled_second,
        max(last_sampled_second) as last_sampled_second
    from {{ ref('int_allocations_from_samples') }}
    group by pod_number, window_number

),

told as (

    select
        lives.pod_number,
        windows.agreement_seconds,
        sampled.first_sampled_second,
        sampled.last_sampled_second,
        greatest(lives.started_second, windows.window_started_second) as started_second,
        least(lives.known_until_second, windows.window_ended_second) as ended_second
    from {{ ref('int_allocations_from_lifecycle') }} as lives
    inner join windows
        on
            lives.cluster_id = windows.cluster_id
            and lives.started_second < windows.window_ended_second
            and lives.known_until_second > windows.window_started_second
    left join sampled
        on
            lives.pod_number = sampled.pod_number
            and windows.window_number = sampled.window_number
    left join flagged
        on lives.pod_number = flagged.pod_number
    where flagged.pod_number is null and lives.started_second < lives.known_until_second

)

select *
from told
where
    first_sampled_second is null
    or (
        not (
            first_sampled_second = last_sampled_second
            and (first_sampled_second < started_second or first_sampled_second > ended_second)
        )
        and (
            first_sampled_second - started_second > agreement_seconds
            or ended_second - last_sampled_second > agreement_seconds
            or started_second - first_sampled_second > {{ clock_tolerance_seconds() }}
            or last_sampled_second - ended_second > {{ clock_tolerance_seconds() }}
        )
    )
