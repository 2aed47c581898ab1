-- Fault E11: joining prices, decisions and hours neither doubles a second of an allocation nor
-- drops one. Every second of a segment is there once for each resource of its pod, by its method; a
-- claimed device is left out, as its time is cut by who holds it.
with

counted as (

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

by_segments as (

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
    coalesce(by_segments.cluster_id, counted.cluster_id) as cluster_id,
    coalesce(by_segments.method, counted.method) as method,
    by_segments.seconds as segment_seconds,
    counted.seconds as counted_seconds
from by_segments
full outer join counted
    on
        by_segments.cluster_id = counted.cluster_id
        and by_segments.method = counted.method
where coalesce(by_segments.seconds, 0) <> coalesce(counted.seconds, 0)
