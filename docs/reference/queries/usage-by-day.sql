-- How much was used each day?
--
-- Usage of tenants over all clusters. A day without usage has zeros.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No day of this period was counted.
with days as (
    select distinct strftime(hour_started_at, '%Y-%m-%d') as usage_day
    from fct_coverage
    where billing_period = $period
),

used as (
    select
        strftime(hour_started_at, '%Y-%m-%d') as usage_day,
        sum(billable_device_seconds) as device_seconds,
        sum(cost_nanos) as cost_nanos,
        max(currency) as currency
    from fct_tenant_hours
    where billing_period = $period and belongs_to = 'tenant'
    group by all
)

select
    days.usage_day,
    cast(coalesce(used.device_seconds, 0) as bigint) as device_seconds,
    coalesce(used.cost_nanos, 0) as cost_nanos,
    coalesce(used.currency, '') as currency
from days
left join used on days.usage_day = used.usage_day
order by days.usage_day
