with

pod_periods as (

    select
        *,
        {{ epoch_seconds('first_started_at') }} as first_started_second,
        {{ epoch_seconds('last_ended_at') }} as last_ended_second
    from {{ ref('fct_pod_periods') }}

),

clusters as (

    select
        cluster_id,
        max(agreement_seconds) as agreement_seconds
    from {{ ref('int_cluster_windows') }}
    group by cluster_id

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

-- Of what has ended, the cost is known. The last sample lies before the end of what was counted.
present as (

    select
        pod_periods.*,
        progress.counted_until_second,
        progress.left_seconds,
        greatest(
            least(progress.counted_until_second - pod_periods.first_started_second, 3600), 1
        ) as pace_seconds
    from pod_periods
    inner join clusters
        on pod_periods.cluster_id = clusters.cluster_id
    inner join progress
        on
            pod_periods.last_ended_second + clusters.agreement_seconds
            >= progress.counted_until_second

),

forecasts as (

    select
        *,
        cost_nanos
        + {{ whole_quotient(
            exact('last_hour_cost_nanos') ~ ' * left_seconds', 'pace_seconds'
        ) }} as forecast_nanos
    from present

),

compared as (

    select
        forecasts.billing_period,
        forecasts.cluster_id,
        forecasts.tenant,
        forecasts.pod_uid,
        forecasts.resource,
        forecasts.pod_name,
        forecasts.workload_kind,
        forecasts.workload_name,
        forecasts.currency,
        {{ instant('forecasts.counted_until_second') }} as counted_until,
        forecasts.cost_nanos,
        forecasts.last_hour_cost_nanos,
        forecasts.last_day_cost_nanos,
        cast(forecasts.forecast_nanos as decimal(38, 0)) as forecast_nanos,
        forecasts.cost_nanos as forecast_low_nanos,
        cast(forecasts.forecast_nanos as decimal(38, 0)) as forecast_high_nanos,
        case
            when forecasts.left_seconds = 0 then 'the period is over: what was counted'
            else
                'cost so far, and what the last hour cost for the time left; the range begins with'
                || ' an end right now'
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
