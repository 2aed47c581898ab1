with

source as (

    select * from {{ source('raw', 'kubernetes_pod_requests') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        pod_uid,
        resource,
        device_count
    from source

)

select * from renamed
