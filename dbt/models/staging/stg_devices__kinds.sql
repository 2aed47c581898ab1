with

source as (

    select * from {{ source('raw', 'device_kinds') }}

),

renamed as (

    select
        labels_sha256,
        resource,
        vendor,
        kind as device_kind,
        product as gpu_product,
        gpu_class,
        mig_profile,
        mig_geometry,
        compute_share_numerator,
        compute_share_denominator,
        memory_share_numerator,
        memory_share_denominator,
        class_compute_unit,
        class_memory_unit,
        replica_count,
        is_claimed,
        unclassified_reason
    from source

)

select * from renamed
