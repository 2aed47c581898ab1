with

source as (

    select * from {{ source('raw', 'rate_intervals') }}

),

renamed as (

    select
        cluster_id,
        gpu_class,
        mig_profile,
        rate_id,
        prices_profile as is_profile_price,
        currency,
        rate_nanos_per_hour,
        {{ epoch_seconds('valid_from') }} as valid_from_second,
        {{ epoch_seconds('valid_until') }} as valid_until_second
    from source

)

select * from renamed
