with

source as (

    select * from {{ source('raw', 'closed_periods') }}

),

renamed as (

    select billing_period
    from source

)

select * from renamed
