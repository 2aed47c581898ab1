with

tenant_hours as (

    select
        tenant,
        currency,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        sum(cost_nanos) as cost_nanos
    from {{ ref('fct_tenant_hours') }}
    where belongs_to = 'tenant'
    group by tenant, currency, hour_started_at

),

budgets as (

    select * from {{ ref('stg_decisions__budgets') }}

),

progress as (

    select
        *,
        counted_until_second - period_started_second as elapsed_seconds,
        period_ended_second - counted_until_second as left_seconds
    from {{ ref('int_period_progress') }}

),

-- Days counted back from the last counted hour, as far as they lie in the period.
days as (

    select
        tenant_hours.tenant,
        tenant_hours.currency,
        {{ whole_quotient(
            'progress.counted_until_second - 3600 - tenant_hours.hour_second', 86400
        ) }} as days_ago,
        sum(tenant_hours.cost_nanos) as cost_nanos
    from tenant_hours
    cross join progress
    group by tenant_hours.tenant, tenant_hours.currency, days_ago

),

-- Whole days of the last week; a day without use has no row, and was a day of nothing.
week as (

    select
        days.tenant,
        days.currency,
        least({{ whole_quotient('max(progress.elapsed_seconds)', 86400) }}, 7) as day_count,
        sum(days.cost_nanos) as cost_nanos,
        max(days.cost_nanos) as highest_day_nanos,
        case
            when
                count(*) >= least({{ whole_quotient('max(progress.elapsed_seconds)', 86400) }}, 7)
                then min(days.cost_nanos)
            else 0
        end as lowest_day_nanos
    from days
    cross join progress
    where days.days_ago < least({{ whole_quotient('progress.elapsed_seconds', 86400) }}, 7)
    group by days.tenant, days.currency

),

totals as (

    select
        tenant_hours.tenant,
        tenant_hours.currency,
        sum(tenant_hours.cost_nanos) as cost_nanos,
        sum(
            case
                when tenant_hours.hour_second >= progress.counted_until_second - 3600
                    then tenant_hours.cost_nanos
                else 0
            end
        ) as last_hour_cost_nanos,
        sum(
            case
                when tenant_hours.hour_second >= progress.counted_until_second - 86400
                    then tenant_hours.cost_nanos
                else 0
            end
        ) as last_day_cost_nanos
    from tenant_hours
    cross join progress
    group by tenant_hours.tenant, tenant_hours.currency

),

-- Until a whole day was counted, the average so far stands for the days to come.
paces as (

    select
        totals.*,
        progress.billing_period,
        progress.counted_until_second,
        progress.left_seconds,
        coalesce(week.day_count, 0) as day_count,
        case
            when coalesce(week.day_count, 0) > 0 then week.cost_nanos else totals.cost_nanos
        end as pace_nanos,
        case
            when coalesce(week.day_count, 0) > 0 then week.day_count * 86400
            else greatest(progress.elapsed_seconds, 1)
        end as pace_seconds,
        week.lowest_day_nanos,
        week.highest_day_nanos
    from totals
    cross join progress
    left join week
        on
            totals.tenant = week.tenant
            and totals.currency = week.currency

),

forecasts as (

    select
        paces.*,
        paces.cost_nanos
        + {{ whole_quotient(
            exact('paces.pace_nanos') ~ ' * paces.left_seconds', 'paces.pace_seconds'
        ) }} as forecast_nanos,
        paces.cost_nanos
        + {{ whole_quotient(
            exact('coalesce(paces.lowest_day_nanos, 0)') ~ ' * paces.left_seconds', 86400
        ) }} as lowest_nanos,
        paces.cost_nanos
        + {{ whole_quotient(
            exact('coalesce(paces.highest_day_nanos, 0)') ~ ' * paces.left_seconds', 86400
        ) }} as highest_nanos
    from paces

),

compared as (

    select
        forecasts.billing_period,
        forecasts.tenant,
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
                'cost so far, and the average of the last ' || cast(forecasts.day_count as varchar)
                || ' days for the time left; the range takes their cheapest and dearest day'
        end as forecast_method,
        cast(coalesce(budgets.budget_nanos, 0) as decimal(38, 0)) as budget_nanos,
        budgets.tenant is not null as has_budget,
        cast(
            case
                when budgets.budget_nanos > 0
                    then
                        {{ whole_quotient(
                            exact('forecasts.cost_nanos') ~ ' * 1000000',
                            exact('budgets.budget_nanos')
                        ) }}
                else 0
            end
            as bigint
        ) as budget_used_millionths
    from forecasts
    left join budgets
        on
            forecasts.tenant = budgets.tenant
            and forecasts.currency = budgets.currency

)

select * from compared
