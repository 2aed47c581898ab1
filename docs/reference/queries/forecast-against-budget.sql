-- Which tenants will exceed their budget?
--
-- The forecast with its method and range. The budget of a tenant without a budget is null, not
-- zero.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No tenant used a GPU in this period.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No tenant has used anything in this period.
select
    tenant,
    cost_nanos as cost_to_date_nanos,
    forecast_nanos,
    forecast_low_nanos,
    forecast_high_nanos,
    case when has_budget then budget_nanos end as budget_nanos,
    case when has_budget then forecast_nanos > budget_nanos end as will_exceed,
    currency,
    forecast_method
from fct_forecasts
where billing_period = $period and subject = 'tenant'
order by will_exceed desc nulls last, forecast_nanos desc, tenant asc, currency asc
