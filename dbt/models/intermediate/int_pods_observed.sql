with

observations as (

    select * from {{ ref('stg_kubernetes__pods') }}

),

attempts as (

    select distinct
        cluster_id,
        attempt_id
    from {{ ref('int_attempts_used') }}
    where source = 'kubernetes'

),

used as (

    select
        observations.*,
        observations.is_deleted or observations.phase in ('Succeeded', 'Failed') as is_ended
    from observations
    inner join attempts
        on
            observations.cluster_id = attempts.cluster_id
            and observations.attempt_id = attempts.attempt_id

),

-- What a pod is called does not change while it lives; what is not known yet is ''.
pods as (

    select
        cluster_id,
        pod_uid,
        max(namespace) as namespace,
        max(namespace_uid) as namespace_uid,
        max(pod_name) as pod_name,
        max(node_name) as node_name,
        max(owner_kind) as owner_kind,
        max(owner_name) as owner_name,
        max(workload_kind) as workload_kind,
        max(workload_name) as workload_name,
        max(restart_count) as restart_count,
        min(bound_second) as bound_second,
        min(started_second) as started_second,
        min(case when is_ended then ended_second end) as ended_second,
        min(observed_second) as first_observed_second,
        max(case when not is_ended then observed_second end) as last_alive_second,
        min(case when is_ended then observed_second end) as first_ended_second
    from used
    group by cluster_id, pod_uid

)

select * from pods
