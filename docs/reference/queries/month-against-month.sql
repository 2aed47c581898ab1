-- How does each tenant compare with the previous month?
--
-- A tenant without usage in one of the two months has zero there.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No tenant used a GPU in either month.
with costs as (
    select
        tenant,
        currency,
        sum(case when billing_period = $period then cost_nanos else 0 end) as cost_nanos,
        sum(case when billing_period <> $period then cost_nanos else 0 end)
            as cost_before_nanos
    from fct_tenant_periods
    where
        belongs_to = 'tenant'
        and billing_period in (
            $period, strftime(cast($period || '-01' as date) - interval 1 month, '%Y-%m')
        )
    group by all
)

select
    tenant,
    cost_nanos,
    cost_before_nanos,
    cost_nanos - cost_before_nanos as difference_nanos,
    currency
from costs
order by abs(difference_nanos) desc, tenant, currency asc
