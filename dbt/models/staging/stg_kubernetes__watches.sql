with

source as (

    select * from {{ source('raw', 'kubernetes_coverage') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        {{ epoch_seconds('watched_from') }} as watched_from_second,
        {{ epoch_seconds('watched_until') }} as watched_until_second,
        list_complete as has_complete_list
    from source

)

select * from renamed
