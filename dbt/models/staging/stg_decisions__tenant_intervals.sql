with

source as (

    select * from {{ source('raw', 'tenant_intervals') }}

),

renamed as (

    select
        namespace,
        belongs_to,
        {{ epoch_seconds('valid_from') }} as valid_from_second,
        {{ epoch_seconds('valid_until') }} as valid_until_second
    from source

)

select * from renamed
