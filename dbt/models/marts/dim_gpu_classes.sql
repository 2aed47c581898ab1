with

products as (

    select * from {{ ref('gpu_products') }}

),

kinds as (

    select * from {{ ref('stg_devices__kinds') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- Products from decision tables appear through the resources that they classify.
known as (

    select
        gpu_class,
        product as gpu_product,
        vendor
    from products
    union
    select
        gpu_class,
        gpu_product,
        vendor
    from kinds
    where gpu_class <> ''

),

seen as (

    select distinct gpu_class
    from kinds
    where gpu_class <> ''

),

classes as (

    select
        parameters.billing_period,
        known.gpu_class,
        min(known.vendor) as vendor,
        count(distinct known.gpu_product) as product_count,
        max(case when seen.gpu_class is null then 0 else 1 end) = 1 as is_seen
    from known
    cross join parameters
    left join seen
        on known.gpu_class = seen.gpu_class
    where known.gpu_class <> ''
    group by parameters.billing_period, known.gpu_class

)

select * from classes
