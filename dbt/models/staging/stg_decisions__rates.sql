with

source as (

    select * from {{ source('raw', 'rates') }}

),

renamed as (

    select
        rate_id,
        cluster_id,
        gpu_class,
        mig_profile,
        currency,
        rate_nanos_per_hour,
        {{ epoch_seconds('valid_from') }} as valid_from_second,
        coalesce({{ epoch_seconds('valid_until') }}, {{ end_of_time() }}) as valid_until_second,
        reason as rate_reason
    from source

)

select * from renamed
