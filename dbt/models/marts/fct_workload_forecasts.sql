with

forecasts as (

    select * from {{ ref('int_forecasts') }}

),

workloads as (

    select
        billing_period,
        tenant,
        workload_kind,
        workload_name,
        currency,
        counted_until,
        cost_nanos,
        last_hour_cost_nanos,
        last_day_cost_nanos,
        forecast_nanos,
        forecast_low_nanos,
        forecast_high_nanos,
        forecast_method,
        budget_nanos,
        has_budget,
        budget_used_millionths
    from forecasts
    where is_workload

)

select * from workloads
