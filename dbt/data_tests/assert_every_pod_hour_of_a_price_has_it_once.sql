-- Fault E11: joining prices, decisions and hours neither doubles a second of an allocation nor
-- drops one. Every second that the witnesses left is there once for each resource of its pod, by
-- what they said; a claimed device is left out, as its time is cut by who holds it.
with

counted as (

    select
        pod_hours.cluster_id,
        pod_hours.state as allocation_state,
        pod_hours.method,
        sum(
            {{ epoch_seconds('pod_hours.segment_ended_at') }}
            - {{ epoch_seconds('pod_hours.segment_started_at') }}
        ) as seconds
    from {{ ref('fct_pod_hours') }} as pod_hours
    left join (
        select distinct
            cluster_id,
            pod_uid,
            resource
        from {{ ref('int_allocations_classified') }}
        where claim_uid <> ''
    ) as claimed
        on
            pod_hours.cluster_id = claimed.cluster_id
            and pod_hours.pod_uid = claimed.pod_uid
            and pod_hours.resource = claimed.resource
    where claimed.cluster_id is null
    group by pod_hours.cluster_id, pod_hours.state, pod_hours.method

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

resources as (

    select distinct
        pod_number,
        cluster_id,
        resource_key
    from {{ ref('int_allocations_classified') }}
    where claim_uid = ''

),

witnessed as (

    select
        resources.cluster_id,
        reconciled.allocation_state,
        reconciled.method,
        sum(
            least(reconciled.ended_second, parameters.period_ended_second)
            - greatest(reconciled.started_second, parameters.period_started_second)
        ) as seconds
    from {{ ref('int_allocations_reconciled') }} as reconciled
    inner join resources
        on reconciled.pod_number = resources.pod_number
    cross join parameters
    where
        reconciled.started_second < parameters.period_ended_second
        and parameters.period_started_second < reconciled.ended_second
    group by resources.cluster_id, reconciled.allocation_state, reconciled.method

)

select
    coalesce(witnessed.cluster_id, counted.cluster_id) as cluster_id,
    coalesce(witnessed.allocation_state, counted.allocation_state) as allocation_state,
    coalesce(witnessed.method, counted.method) as method,
    witnessed.seconds as witnessed_seconds,
    counted.seconds as counted_seconds
from witnessed
full outer join counted
    on
        witnessed.cluster_id = counted.cluster_id
        and witnessed.allocation_state = counted.allocation_state
        and witnessed.method = counted.method
where coalesce(witnessed.seconds, 0) <> coalesce(counted.seconds, 0)
