with

profiles as (

    select * from {{ ref('mig_profiles') }}

),

products as (

    select distinct
        gpu_class,
        mig_geometry
    from {{ ref('gpu_products') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

class_profiles as (

    select
        parameters.billing_period,
        products.gpu_class,
        profiles.profile as mig_profile,
        cast(profiles.compute_slots as bigint) as compute_slots,
        cast(profiles.memory_slots as bigint) as memory_slots,
        cast(profiles.max_count as bigint) as most_per_card
    from profiles
    inner join products
        on profiles.mig_geometry = products.mig_geometry
    cross join parameters

)

select * from class_profiles
