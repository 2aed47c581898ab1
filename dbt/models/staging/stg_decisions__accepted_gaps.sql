with

source as (

    select * from {{ source('raw', 'accepted_gaps') }}

),

renamed as (

    select
        cluster_id,
        source,
        {{ epoch_seconds('started_at') }} as started_second,
        {{ epoch_seconds('ended_at') }} as ended_second,
        treatment,
        pod_uid,
        reason as accepted_reason,
        decided_by
    from source

)

select * from renamed
