-- The outage credits of a period per tenant and currency, which have separate lines on the
-- invoices.
select
    tenant,
    currency,
    sum(credit_nanos) as credit_nanos
from fct_outage_credits
where
    billing_period = $period
    and belongs_to = 'tenant'
    and ($tenant = '' or tenant = $tenant)
group by all
having sum(credit_nanos) <> 0
order by all
