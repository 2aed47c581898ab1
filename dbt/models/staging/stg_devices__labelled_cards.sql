with

source as (

    select * from {{ source('raw', 'labelled_cards') }}

),

renamed as (

    select
        labels_sha256,
        gpu_class,
        card_count as labelled_card_count
    from source

)

select * from renamed
