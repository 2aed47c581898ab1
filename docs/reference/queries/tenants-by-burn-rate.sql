-- Which tenants have the highest burn rate?
--
-- The burn rate is the cost of the last counted hour; the last 24 hours and the period to date are
-- beside it. Amounts are exact, before they are rounded to cents.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No tenant used a GPU in this period.
select
    tenant,
    last_hour_cost_nanos,
    last_day_cost_nanos,
    cost_nanos as cost_to_date_nanos,
    currency,
    counted_until
from fct_forecasts
where billing_period = $period and subject = 'tenant'
order by last_hour_cost_nanos desc, cost_to_date_nanos desc, tenant asc, currency asc
