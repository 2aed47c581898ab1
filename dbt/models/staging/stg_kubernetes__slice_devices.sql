with

source as (

    select * from {{ source('raw', 'kubernetes_slice_devices') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('observed_at') }} as observed_second,
        node_name,
        driver as driver_name,
        pool as pool_name,
        device as device_name,
        coalesce(tainted, false) as is_tainted,
        deleted as is_deleted
    from source

)

select * from renamed
