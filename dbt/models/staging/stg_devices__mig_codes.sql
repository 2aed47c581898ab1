with

source as (

    select * from {{ source('raw', 'mig_codes') }}

),

renamed as (

    select
        gpu_class,
        mig_profile,
        replica_count,
        code_multiplier
    from source

)

select * from renamed
