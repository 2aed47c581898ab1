with

source as (

    select * from {{ source('raw', 'policies') }}

),

renamed as (

    select
        policy,
        policy_version,
        policy_value,
        {{ epoch_seconds('valid_from') }} as valid_from_second,
        {{ epoch_seconds('valid_until') }} as valid_until_second
    from source

)

select * from renamed
