-- Fault E11: the joins with prices, decisions and hours neither double nor drop a second of an
-- allocation. Each second of a segment occurs once for each resource of its pod, with its method.
-- Claimed devices are left out, because their time is cut where their holders change.
with

pod_hour_seconds as (

    select
        pod_hours.cluster_id,
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
        from {{ ref('int_allocations') }}
        where claim_uid <> ''
    ) as claimed
        on
            pod_hours.cluster_id = claimed.cluster_id
            and pod_hours.pod_uid = claimed.pod_uid
            and pod_hours.resource = claimed.resource
    where claimed.cluster_id is null
    group by pod_hours.cluster_id, pod_hours.method

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

resources as (

    select distinct
        cluster_id,
        pod_uid,
        resource_key
    from {{ ref('int_allocations') }}
    where claim_uid = ''

),

rules as (

    select * from {{ ref('reconciliation_rules') }}

),

segment_seconds as (

    select
        resources.cluster_id,
        case
            when segments.is_contradicted and rules.method <> 'missing' then 'disputed'
            else rules.method
        end as method,
        sum(
            least(segments.ended_second, parameters.period_ended_second)
            - greatest(segments.started_second, parameters.period_started_second)
        ) as seconds
    from {{ ref('int_allocation_segments') }} as segments
    inner join rules
        on segments.segment_kind = rules.segment_kind
    inner join resources
        on
            segments.cluster_id = resources.cluster_id
            and segments.pod_uid = resources.pod_uid
    cross join parameters
    where
        segments.started_second < parameters.period_ended_second
        and parameters.period_started_second < segments.ended_second
    group by
        resources.cluster_id,
        case
            when segments.is_contradicted and rules.method <> 'missing' then 'disputed'
            else rules.method
        end

)

select
    coalesce(segment_seconds.cluster_id, pod_hour_seconds.cluster_id) as cluster_id,
    coalesce(segment_seconds.method, pod_hour_seconds.method) as method,
    segment_seconds.seconds as segment_seconds,
    pod_hour_seconds.seconds as counted_seconds
from segment_seconds
full outer join pod_hour_seconds
    on
        segment_seconds.cluster_id = pod_hour_seconds.cluster_id
        and segment_seconds.method = pod_hour_seconds.method
where coalesce(segment_seconds.seconds, 0) <> coalesce(pod_hour_seconds.seconds, 0)
