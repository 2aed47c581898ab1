with

devices as (

    select *
    from {{ ref('int_claimed_devices') }}
    where not is_card_of_shares

),

levels as (

    select
        *,
        lead(started_second) over (
            partition by cluster_id, claim_uid, pool_name, resource_key order by started_second
        ) as next_second
    from {{ ref('int_claim_levels') }}

),

-- Whether this pod is one of those that hold it then is known from its own stretches.
shares as (

    select
        devices.pod_number,
        devices.claim_uid,
        devices.resource_key,
        devices.resource,
        levels.holder_count,
        levels.started_second,
        -- The doubt about the last one's end has no length and stands at that end.
        case
            when levels.next_second = levels.ended_second then levels.ended_second
            else levels.ended_second + 1
        end as ended_second
    from devices
    inner join levels
        on
            devices.cluster_id = levels.cluster_id
            and devices.claim_uid = levels.claim_uid
            and devices.pool_name = levels.pool_name
            and devices.resource_key = levels.resource_key

)

select * from shares
