with

source as (

    select * from {{ source('raw', 'card_answers') }}

),

renamed as (

    select
        gpu_class,
        wanted_code,
        offered_code,
        mig_card_count,
        fewest_card_count
    from source

)

select * from renamed
