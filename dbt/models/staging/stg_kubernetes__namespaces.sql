with

source as (

    select * from {{ source('raw', 'kubernetes_namespace_observations') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('observed_at') }} as observed_second,
        via as observed_via,
        namespace,
        namespace_uid,
        deleted as is_deleted
    from source

)

select * from renamed
