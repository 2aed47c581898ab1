with

source as (

    select * from {{ source('raw', 'thanos_series') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ series_key('series_id') }} as series_key,
        metric,
        labels_sha256,
        labels
    from source

)

select * from renamed
