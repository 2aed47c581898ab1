-- How does each tenant compare with the month before?
--
-- A tenant that has only one of the two months has nothing in the other, which is zero here.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No tenant has used anything in either month.
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
