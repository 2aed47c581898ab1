{{ config(materialized='ephemeral') }}

with

hours as (

    select * from {{ ref('int_cost_hours') }}

),

bearers as (

    select distinct
        bearer_number,
        tenant,
        is_workload,
        workload_kind,
        workload_name,
        currency
    from hours

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
        hours.bearer_number,
        {{ whole_quotient(
            'progress.counted_until_second - 3600 - hours.hour_second', 86400
        ) }} as days_ago,
        sum(hours.cost_nanos) as cost_nanos
    from hours
    cross join progress
    group by hours.bearer_number, days_ago

),

week as (

    select
        days.bearer_number,
        count(*) as used_day_count,
        sum(days.cost_nanos) as cost_nanos,
        min(days.cost_nanos) as lowest_day_nanos,
        max(days.cost_nanos) as highest_day_nanos
    from days
    inner join progress
        on days.days_ago < progress.day_count
    group by days.bearer_number

),

totals as (

    select
        hours.bearer_number,
        sum(hours.cost_nanos) as cost_nanos,
        sum(
            case
                when hours.hour_second >= progress.counted_until_second - 3600
                    then hours.cost_nanos
                else 0
            end
        ) as last_hour_cost_nanos,
        sum(
            case
                when hours.hour_second >= progress.counted_until_second - 86400
                    then hours.cost_nanos
                else 0
            end
        ) as last_day_cost_nanos
    from hours
    cross join progress
    group by hours.bearer_number

),

-- A day without use has no row, and was a day of nothing. Until a whole day was counted, the
-- average so far stands for the days to come.
paces as (

    select
        bearers.*,
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
        on totals.bearer_number = week.bearer_number
    inner join bearers
        on totals.bearer_number = bearers.bearer_number

)

select * from paces
