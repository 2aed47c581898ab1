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

-- What a pod is called does not change while it lives; what is not known yet is ''.
pods as (

    select
        observations.cluster_id,
        observations.pod_uid,
        any_value(observations.namespace) as namespace,
        any_value(observations.pod_name) as pod_name,
        max(observations.namespace_uid) as namespace_uid,
        max(observations.node_name) as node_name,
        max(observations.workload_kind) as workload_kind,
        max(observations.workload_name) as workload_name,
        max(observations.restart_count) as restart_count,
        min(observations.bound_second) as bound_second,
        min(observations.started_second) as started_second,
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

)

select * from pods
