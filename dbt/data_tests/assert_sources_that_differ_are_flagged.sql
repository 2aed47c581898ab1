-- Invariant 11: if all time of a pod is confirmed, its samples lie in its lifecycle, within the
-- tolerance of the clocks, and none is missing at its start or end for longer than the sources may
-- differ. A single sample outside the lifecycle is an instant without a second to dispute.
with

flagged_pods as (

    select distinct
        cluster_id,
        pod_uid
    from {{ ref('int_allocations_reconciled') }}
    where allocation_state = 'running' and method <> 'confirmed'

),

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples and expects_journal

),

sampled_pods as (

    select
        cluster_id,
        pod_uid,
        window_number,
        min(first_sampled_second) as first_sampled_second,
        max(last_sampled_second) as last_sampled_second
    from {{ ref('int_allocations_from_samples') }}
    group by cluster_id, pod_uid, window_number

),

compared_pods as (

    select
        pods.cluster_id,
        pods.pod_uid,
        windows.agreement_seconds,
        sampled_pods.first_sampled_second,
        sampled_pods.last_sampled_second,
        greatest(pods.started_second, windows.window_started_second) as started_second,
        least(pods.known_until_second, windows.window_ended_second) as ended_second
    from {{ ref('int_pods_from_journal') }} as pods
    inner join windows
        on
            pods.cluster_id = windows.cluster_id
            and pods.started_second < windows.window_ended_second
            and pods.known_until_second > windows.window_started_second
    left join sampled_pods
        on
            pods.cluster_id = sampled_pods.cluster_id
            and pods.pod_uid = sampled_pods.pod_uid
            and windows.window_number = sampled_pods.window_number
    left join flagged_pods
        on
            pods.cluster_id = flagged_pods.cluster_id
            and pods.pod_uid = flagged_pods.pod_uid
    where flagged_pods.pod_uid is null and pods.started_second < pods.known_until_second

)

select *
from compared_pods
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
