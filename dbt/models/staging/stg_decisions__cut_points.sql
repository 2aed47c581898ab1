with

source as (

    select * from {{ source('raw', 'cut_points') }}

),

renamed as (

    select {{ epoch_seconds('cut_at') }} as cut_second
    from source

)

select * from renamed
