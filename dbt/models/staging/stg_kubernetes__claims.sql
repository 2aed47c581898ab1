with

source as (

    select * from {{ source('raw', 'kubernetes_claim_observations') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('observed_at') }} as observed_second,
        claim_uid,
        namespace,
        claim_name,
        pod_uids,
        driver as driver_name,
        pool as pool_name,
        device as device_name,
        request_name,
        coalesce(share_id, '') as share_id,
        deleted as is_deleted,
        coalesce(admin_access, false) as is_admin_access,
        coalesce(extended_resource, false) as is_of_extended_resource
    from source

)

select * from renamed
