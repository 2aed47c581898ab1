with

observations as (

    select
        *,
        is_deleted or phase in ('Succeeded', 'Failed') as is_ended
    from {{ ref('stg_kubernetes__pods') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

watches as (

    select
        *,
        lead(started_second) over (partition by cluster_id order by started_second)
            as next_watched_second
    from {{ ref('int_watch_intervals') }}
    where is_watched

),

-- The names of a pod never change; a name that is not yet known is ''.
pods as (

    select
        observations.cluster_id,
        observations.pod_uid,
        any_value(observations.namespace) as namespace,
        any_value(observations.pod_name) as pod_name,
        max(observations.node_name) as node_name,
        max(observations.workload_kind) as workload_kind,
        max(observations.workload_name) as workload_name,
        min(observations.bound_second) as bound_second,
        min(observations.started_second) as started_second,
        min(case when observations.started_second is not null then observations.restart_count end)
            as first_restart_count,
        max(case when observations.started_second is null then observations.observed_second end)
            as last_waiting_second,
        min(case when observations.is_ended then observations.ended_second end) as ended_second,
        min(observations.observed_second) as first_observed_second,
        max(case when not observations.is_ended then observations.observed_second end)
            as last_alive_second,
        min(case when observations.is_ended then observations.observed_second end)
            as first_ended_second
    from observations
    inner join attempts
        on
            observations.cluster_id = attempts.cluster_id
            and observations.attempt_id = attempts.attempt_id
    group by observations.cluster_id, observations.pod_uid

),

-- An ended pod never runs again: later observations of it are repetitions.
observed_pods as (

    select
        *,
        case
            when last_alive_second is not null
                then least(last_alive_second, first_ended_second)
        end as alive_second,
        least(coalesce(last_alive_second, first_observed_second), first_ended_second)
            as placed_second
    from pods

),

watched_pods as (

    select
        observed_pods.*,
        watches.ended_second as watched_until_second,
        watches.next_watched_second
    from observed_pods
    left join watches
        on
            observed_pods.cluster_id = watches.cluster_id
            and watches.started_second <= observed_pods.placed_second
            and observed_pods.placed_second < watches.ended_second

),

-- An unbroken watch would have recorded an earlier end.
bounded_pods as (

    select
        *,
        case
            when ended_second is not null
                then least(ended_second, first_ended_second)
            when alive_second is null then coalesce(started_second, first_ended_second)
            when first_ended_second <= watched_until_second then first_ended_second
            else coalesce(watched_until_second, alive_second)
        end as known_until_second,
        coalesce(first_ended_second, next_watched_second) as absent_by_second
    from watched_pods

)

select
    cluster_id,
    pod_uid,
    namespace,
    pod_name,
    node_name,
    workload_kind,
    workload_name,
    bound_second,
    -- The clock of a kubelet may be ahead of the clock of the API server, so the start is at most
    -- the end.
    case when started_second is not null then least(started_second, known_until_second) end
        as started_second,
    -- The API server reports the current and the last run of a container. The first status with a
    -- start may follow a restart; then the pod started after it was bound, and after each status
    -- without a start, whose time is that of the collector's clock.
    case
        when started_second is null then null
        when first_restart_count = 0 then least(started_second, known_until_second)
        else
            least(
                greatest(bound_second, last_waiting_second - {{ clock_tolerance_seconds() }}),
                started_second,
                known_until_second
            )
    end as started_after_second,
    known_until_second,
    case
        when
            ended_second is null
            and (first_ended_second is null or known_until_second < first_ended_second)
            then greatest(coalesce(absent_by_second, {{ end_of_time() }}), known_until_second)
        else known_until_second
    end as ended_by_second
from bounded_pods
