with

source as (

    select * from {{ source('raw', 'kubernetes_quota_observations') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('observed_at') }} as observed_second,
        namespace,
        quota_name,
        resource,
        hard as hard_count,
        used as used_count
    from source

)

select * from renamed
