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

-- Products from decision tables come from the kinds of devices that they classify.
known_products as (

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

observed_classes as (

    select distinct gpu_class
    from kinds
    where gpu_class <> ''

),

classes as (

    select
        parameters.billing_period,
        known_products.gpu_class,
        min(known_products.vendor) as vendor,
        count(distinct known_products.gpu_product) as product_count,
        max(case when observed_classes.gpu_class is null then 0 else 1 end) = 1 as is_seen
    from known_products
    cross join parameters
    left join observed_classes
        on known_products.gpu_class = observed_classes.gpu_class
    where known_products.gpu_class <> ''
    group by parameters.billing_period, known_products.gpu_class

)

select * from classes
