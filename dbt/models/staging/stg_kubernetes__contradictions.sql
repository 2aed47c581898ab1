with

source as (

    select * from {{ source('raw', 'kubernetes_contradictions') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('observed_at') }} as observed_second,
        resource as object_kind,
        object_uid,
        what as contradiction,
        before_value,
        after_value
    from source

)

select * from renamed
