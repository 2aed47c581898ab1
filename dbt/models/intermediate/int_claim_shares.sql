with

devices as (

    select * from {{ ref('int_claimed_devices') }}

),

segments as (

    select *
    from {{ ref('int_allocation_segments') }}
    where
        segment_kind <> 'end_unknown'
        and started_second < ended_second

),

holdings as (

    select
        devices.cluster_id,
        devices.claim_uid,
        devices.pool_name,
        devices.resource_key,
        segments.started_second,
        segments.ended_second,
        case when segments.segment_kind = 'before_start' then 0 else 1 end as running_count
    from devices
    inner join segments
        on
            devices.cluster_id = segments.cluster_id
            and devices.pod_uid = segments.pod_uid

),

events as (

    select
        cluster_id,
        claim_uid,
        pool_name,
        resource_key,
        started_second as event_second,
        1 as holder_change,
        running_count as running_change
    from holdings
    union all
    select
        cluster_id,
        claim_uid,
        pool_name,
        resource_key,
        ended_second as event_second,
        -1 as holder_change,
        -running_count as running_change
    from holdings

),

instants as (

    select
        cluster_id,
        claim_uid,
        pool_name,
        resource_key,
        event_second,
        sum(holder_change) as holder_change,
        sum(running_change) as running_change
    from events
    group by cluster_id, claim_uid, pool_name, resource_key, event_second

),

levels as (

    select
        cluster_id,
        claim_uid,
        pool_name,
        resource_key,
        event_second as started_second,
        lead(event_second) over devices as ended_second,
        cast(sum(holder_change) over devices as bigint) as holder_count,
        cast(sum(running_change) over devices as bigint) as running_count
    from instants
    window
        devices as (
            partition by cluster_id, claim_uid, pool_name, resource_key
            order by event_second
        )

),

shares as (

    select
        *,
        coalesce(
            lead(holder_count) over (
                partition by cluster_id, claim_uid, pool_name, resource_key
                order by started_second
            ) > 0,
            false
        ) as is_held_after
    from levels

)

select *
from shares
where holder_count > 0
