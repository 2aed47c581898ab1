with

source as (

    select * from {{ source('raw', 'thanos_series') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        series_key,
        metric,
        labels_sha256,
        labels,
        -- Stored in columns of their own where the UID is a UUID, or else among the labels.
        coalesce(uid, {{ label('labels', 'uid') }}) as pod_uid,
        coalesce(pod, {{ label('labels', 'pod') }}) as pod_name
    from source

)

select * from renamed
