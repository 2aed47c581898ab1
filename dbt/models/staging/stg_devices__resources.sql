with

source as (

    select * from {{ source('raw', 'resources') }}

),

renamed as (

    select
        resource,
        resource_key,
        requested_name,
        is_gpu
    from source

)

select * from renamed
