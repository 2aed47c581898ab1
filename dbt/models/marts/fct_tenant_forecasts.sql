with

forecasts as (

    select * from {{ ref('int_forecasts') }}

),

tenants as (

    select
        billing_period,
        tenant,
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
    where not is_workload

)

select * from tenants
