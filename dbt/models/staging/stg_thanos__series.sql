with

source as (

    select * from {{ source('raw', 'thanos_series') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        series_id,
        metric,
        labels_sha256,
        labels
    from source

)

select * from renamed
