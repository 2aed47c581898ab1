with

allocations as (

    select * from {{ ref('int_allocations_from_samples') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

period_pods as (

    select
        parameters.billing_period,
        allocations.cluster_id,
        allocations.pod_uid,
        {{ instant('allocations.first_sampled_second') }} as first_sampled_at,
        {{ instant('allocations.last_sampled_second') }} as last_sampled_at
    from allocations
    cross join parameters

)

select * from period_pods
