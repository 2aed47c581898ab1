with

progress as (

    select
        *,
        period_ended_second - counted_until_second as left_seconds,
        -- The whole days of the last week, as far as they lie in the period.
        least(
            {{ whole_quotient('counted_until_second - period_started_second', 86400) }}, 7
        ) as day_count
    from {{ ref('int_period_progress') }}

),

budgets as (

    select * from {{ ref('dim_budgets') }}
    where is_of_tenant

),

clusters as (

    select
        cluster_id,
        max(agreement_seconds) as agreement_seconds
    from {{ ref('int_cluster_windows') }}
    group by cluster_id

),

hours as (

    select
        tenant,
        workload_kind,
        workload_name,
        currency,
        cost_nanos,
        {{ epoch_seconds('hour_started_at') }} as hour_second
    from {{ ref('fct_pod_hours') }}
    where belongs_to = 'tenant'

),

-- Days are counted back from the last counted hour.
workload_days as (

    select
        hours.tenant,
        hours.workload_kind,
        hours.workload_name,
        hours.currency,
        {{ whole_quotient(
            'progress.counted_until_second - 3600 - hours.hour_second', 86400
        ) }} as days_ago,
        sum(hours.cost_nanos) as cost_nanos,
        sum(
            case
                when hours.hour_second >= progress.counted_until_second - 3600
                    then hours.cost_nanos
                else 0
            end
        ) as last_hour_cost_nanos
    from hours
    cross join progress
    group by
        hours.tenant, hours.workload_kind, hours.workload_name, hours.currency, days_ago

),

days as (

    select
        'workload' as subject,
        *
    from workload_days
    union all
    select
        'tenant' as subject,
        tenant,
        '' as workload_kind,
        '' as workload_name,
        currency,
        days_ago,
        sum(cost_nanos) as cost_nanos,
        sum(last_hour_cost_nanos) as last_hour_cost_nanos
    from workload_days
    group by tenant, currency, days_ago

),

-- A day without use has no row and cost nothing.
weeks as (

    select
        days.subject,
        days.tenant,
        days.workload_kind,
        days.workload_name,
        days.currency,
        sum(days.cost_nanos) as cost_nanos,
        sum(days.last_hour_cost_nanos) as last_hour_cost_nanos,
        sum(case when days.days_ago <= 0 then days.cost_nanos else 0 end) as last_day_cost_nanos,
        sum(case when days.days_ago < progress.day_count then 1 else 0 end) as used_day_count,
        sum(case when days.days_ago < progress.day_count then days.cost_nanos else 0 end)
            as week_nanos,
        min(case when days.days_ago < progress.day_count then days.cost_nanos end)
            as lowest_used_day_nanos,
        coalesce(
            max(case when days.days_ago < progress.day_count then days.cost_nanos end), 0
        ) as highest_day_nanos
    from days
    cross join progress
    group by
        days.subject, days.tenant, days.workload_kind, days.workload_name, days.currency

),

-- On the first day of the period, the average of the counted time is used for the time left.
paces as (

    select
        weeks.*,
        progress.day_count,
        progress.left_seconds,
        case when progress.day_count = 0 then weeks.cost_nanos else weeks.week_nanos end
            as pace_nanos,
        case
            when progress.day_count = 0
                then
                    greatest(progress.counted_until_second - progress.period_started_second, 1)
            else progress.day_count * 86400
        end as pace_seconds,
        case
            when weeks.used_day_count = progress.day_count
                then coalesce(weeks.lowest_used_day_nanos, 0)
            else 0
        end as lowest_day_nanos
    from weeks
    cross join progress

),

day_forecasts as (

    select
        *,
        cost_nanos
        + {{ whole_quotient(exact('pace_nanos') ~ ' * left_seconds', 'pace_seconds') }}
            as forecast_nanos,
        cost_nanos
        + {{ whole_quotient(exact('lowest_day_nanos') ~ ' * left_seconds', 86400) }}
            as lowest_nanos,
        cost_nanos
        + {{ whole_quotient(exact('highest_day_nanos') ~ ' * left_seconds', 86400) }}
            as highest_nanos
    from paces

),

-- The cost of a pod that has ended is known. The last sample of a running one lies before the end
-- of the counted time.
running_pods as (

    select
        pods.*,
        progress.left_seconds,
        greatest(
            least(
                progress.counted_until_second - {{ epoch_seconds('pods.first_started_at') }}, 3600
            ),
            1
        ) as pace_seconds
    from {{ ref('fct_pod_periods') }} as pods
    inner join clusters
        on pods.cluster_id = clusters.cluster_id
    inner join progress
        on
            {{ epoch_seconds('pods.last_ended_at') }} + clusters.agreement_seconds
            >= progress.counted_until_second

),

pod_forecasts as (

    select
        *,
        cost_nanos
        + {{ whole_quotient(exact('last_hour_cost_nanos') ~ ' * left_seconds', 'pace_seconds') }}
            as forecast_nanos
    from running_pods

),

subjects as (

    select
        subject,
        tenant,
        workload_kind,
        workload_name,
        '' as cluster_id,
        '' as pod_uid,
        '' as pod_name,
        '' as resource,
        currency,
        cost_nanos,
        last_hour_cost_nanos,
        last_day_cost_nanos,
        forecast_nanos,
        least(lowest_nanos, forecast_nanos) as forecast_low_nanos,
        greatest(highest_nanos, forecast_nanos) as forecast_high_nanos,
        case
            when day_count = 0 then 'cost so far, and the average pace so far for the time left'
            else
                'cost so far, and the average of the last ' || cast(day_count as string)
                || ' days for the time left; the range takes their cheapest and dearest day'
        end as forecast_method
    from day_forecasts
    union all
    select
        'pod' as subject,
        tenant,
        workload_kind,
        workload_name,
        cluster_id,
        pod_uid,
        pod_name,
        resource,
        currency,
        cost_nanos,
        last_hour_cost_nanos,
        last_day_cost_nanos,
        forecast_nanos,
        cost_nanos as forecast_low_nanos,
        forecast_nanos as forecast_high_nanos,
        'cost so far, and the cost of the last hour for each hour left; the range begins with the'
        || ' cost so far' as forecast_method
    from pod_forecasts

),

forecasts as (

    select
        progress.billing_period,
        subjects.subject,
        subjects.tenant,
        subjects.workload_kind,
        subjects.workload_name,
        subjects.cluster_id,
        subjects.pod_uid,
        subjects.pod_name,
        subjects.resource,
        subjects.currency,
        {{ instant('progress.counted_until_second') }} as counted_until,
        cast(subjects.cost_nanos as decimal(38, 0)) as cost_nanos,
        cast(subjects.last_hour_cost_nanos as decimal(38, 0)) as last_hour_cost_nanos,
        cast(subjects.last_day_cost_nanos as decimal(38, 0)) as last_day_cost_nanos,
        cast(subjects.forecast_nanos as decimal(38, 0)) as forecast_nanos,
        cast(subjects.forecast_low_nanos as decimal(38, 0)) as forecast_low_nanos,
        cast(subjects.forecast_high_nanos as decimal(38, 0)) as forecast_high_nanos,
        case
            when progress.left_seconds = 0 then 'the period is over: the counted cost'
            else subjects.forecast_method
        end as forecast_method,
        cast(coalesce(budgets.budget_nanos, 0) as decimal(38, 0)) as budget_nanos,
        budgets.tenant is not null as has_budget,
        {{ millionths('subjects.cost_nanos', 'budgets.budget_nanos') }} as budget_used_millionths
    from subjects
    cross join progress
    left join budgets
        on
            subjects.tenant = budgets.tenant
            and subjects.currency = budgets.currency

)

select * from forecasts
