with

paces as (

    select * from {{ ref('int_cost_paces') }}

),

budgets as (

    select * from {{ ref('stg_decisions__budgets') }}

),

progress as (

    select
        *,
        period_ended_second - counted_until_second as left_seconds
    from {{ ref('int_period_progress') }}

),

forecasts as (

    select
        paces.*,
        progress.billing_period,
        progress.counted_until_second,
        progress.left_seconds,
        paces.cost_nanos
        + {{ whole_quotient(
            exact('paces.pace_nanos') ~ ' * progress.left_seconds', 'paces.pace_seconds'
        ) }} as forecast_nanos,
        paces.cost_nanos
        + {{ whole_quotient(
            exact('paces.lowest_day_nanos') ~ ' * progress.left_seconds', 86400
        ) }} as lowest_nanos,
        paces.cost_nanos
        + {{ whole_quotient(
            exact('paces.highest_day_nanos') ~ ' * progress.left_seconds', 86400
        ) }} as highest_nanos
    from paces
    cross join progress

),

compared as (

    select
        forecasts.billing_period,
        forecasts.tenant,
        forecasts.is_workload,
        forecasts.workload_kind,
        forecasts.workload_name,
        forecasts.currency,
        {{ instant('forecasts.counted_until_second') }} as counted_until,
        cast(forecasts.cost_nanos as decimal(38, 0)) as cost_nanos,
        cast(forecasts.last_hour_cost_nanos as decimal(38, 0)) as last_hour_cost_nanos,
        cast(forecasts.last_day_cost_nanos as decimal(38, 0)) as last_day_cost_nanos,
        cast(forecasts.forecast_nanos as decimal(38, 0)) as forecast_nanos,
        cast(least(forecasts.lowest_nanos, forecasts.forecast_nanos) as decimal(38, 0))
            as forecast_low_nanos,
        cast(greatest(forecasts.highest_nanos, forecasts.forecast_nanos) as decimal(38, 0))
            as forecast_high_nanos,
        case
            when forecasts.left_seconds = 0 then 'the period is over: what was counted'
            when forecasts.day_count = 0
                then 'cost so far, and the average pace so far for the time left'
            else
                'cost so far, and the average of the last ' || cast(forecasts.day_count as string)
                || ' days for the time left; the range takes their cheapest and dearest day'
        end as forecast_method,
        cast(coalesce(budgets.budget_nanos, 0) as decimal(38, 0)) as budget_nanos,
        budgets.tenant is not null as has_budget,
        {{ millionths('forecasts.cost_nanos', 'budgets.budget_nanos') }} as budget_used_millionths
    from forecasts
    left join budgets
        on
            forecasts.tenant = budgets.tenant
            and forecasts.currency = budgets.currency

)

select * from compared
