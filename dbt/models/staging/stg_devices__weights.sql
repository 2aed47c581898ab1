with

source as (

    select * from {{ source('raw', 'device_weights') }}

),

renamed as (

    select
        labels_sha256,
        resource,
        weight_policy,
        weight_numerator,
        weight_denominator,
        {{ epoch_seconds('valid_from') }} as valid_from_second,
        {{ epoch_seconds('valid_until') }} as valid_until_second
    from source

)

select * from renamed
