with

islands as (

    select * from {{ ref('int_allocations_from_samples') }}

),

pods as (

    select * from {{ ref('int_pods') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

sampled as (

    select
        parameters.billing_period,
        pods.cluster_id,
        pods.pod_uid,
        {{ instant('islands.first_sampled_second') }} as first_sampled_at,
        {{ instant('islands.last_sampled_second') }} as last_sampled_at
    from islands
    inner join pods
        on islands.pod_number = pods.pod_number
    cross join parameters

)

select * from sampled
