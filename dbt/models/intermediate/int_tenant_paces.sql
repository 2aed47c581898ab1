{{ config(materialized='ephemeral') }}

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

-- The pace is that of the whole days of the last week, as far as they lie in the period.
progress as (

    select
        *,
        counted_until_second - period_started_second as elapsed_seconds,
        least(
            {{ whole_quotient('counted_until_second - period_started_second', 86400) }}, 7
        ) as day_count
    from {{ ref('int_period_progress') }}

),

-- Days are counted back from the last counted hour.
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

week as (

    select
        days.tenant,
        days.currency,
        count(*) as used_day_count,
        sum(days.cost_nanos) as cost_nanos,
        min(days.cost_nanos) as lowest_day_nanos,
        max(days.cost_nanos) as highest_day_nanos
    from days
    inner join progress
        on days.days_ago < progress.day_count
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

-- A day without use has no row, and was a day of nothing. Until a whole day was counted, the
-- average so far stands for the days to come.
paces as (

    select
        totals.tenant,
        totals.currency,
        totals.cost_nanos,
        totals.last_hour_cost_nanos,
        totals.last_day_cost_nanos,
        progress.day_count,
        case
            when progress.day_count = 0 then totals.cost_nanos
            else coalesce(week.cost_nanos, 0)
        end as pace_nanos,
        case
            when progress.day_count = 0 then greatest(progress.elapsed_seconds, 1)
            else progress.day_count * 86400
        end as pace_seconds,
        case
            when week.used_day_count = progress.day_count then week.lowest_day_nanos
            else 0
        end as lowest_day_nanos,
        coalesce(week.highest_day_nanos, 0) as highest_day_nanos
    from totals
    cross join progress
    left join week
        on
            totals.tenant = week.tenant
            and totals.currency = week.currency

)

select * from paces
