with

source as (

    select * from {{ source('raw', 'claimed_devices') }}

),

renamed as (

    select
        cluster_id,
        claim_uid,
        driver as driver_name,
        pool as pool_name,
        device as device_name,
        share_id,
        holding_key,
        resource
    from source

)

select * from renamed
