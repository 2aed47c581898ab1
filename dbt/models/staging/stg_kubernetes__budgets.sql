with

source as (

    select * from {{ source('raw', 'kubernetes_budget_observations') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('observed_at') }} as observed_second,
        journal_position,
        namespace,
        budget_name,
        {{ epoch_seconds('created_at') }} as created_second,
        billing_period as budget_period,
        currency,
        cast(budget_nanos as decimal(38, 0)) as budget_nanos,
        workload_kind,
        workload_name,
        label_key,
        label_value,
        actual_steps,
        forecast_steps,
        invalid as invalid_reason,
        deleted as is_deleted
    from source

)

select * from renamed
