with

source as (

    select * from {{ source('raw', 'budgets') }}

),

renamed as (

    select
        tenant,
        currency,
        budget_nanos
    from source

)

select * from renamed
