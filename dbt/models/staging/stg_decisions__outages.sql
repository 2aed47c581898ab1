with

source as (

    select * from {{ source('raw', 'outages') }}

),

renamed as (

    select
        cluster_id,
        node_name,
        pod_uid,
        {{ epoch_seconds('started_at') }} as started_second,
        {{ epoch_seconds('ended_at') }} as ended_second,
        reason
    from source

)

select * from renamed
