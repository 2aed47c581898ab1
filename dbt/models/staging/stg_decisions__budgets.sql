with

source as (

    select * from {{ source('raw', 'budgets') }}

),

renamed as (

    select
        tenant,
        budget_name,
        currency,
        cast(budget_nanos as decimal(38, 0)) as budget_nanos,
        workload_kind,
        workload_name,
        label_key,
        label_value,
        actual_steps,
        forecast_steps
    from source

)

select * from renamed
