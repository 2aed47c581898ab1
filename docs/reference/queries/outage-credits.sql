-- Which credits were given for outages?
--
-- One row per outage and usage in it. On an invoice the credits of a charge are a separate line.
-- Amounts are negative and not rounded to cents.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No outage of this period has a credit.
select
    tenant,
    gpu_class,
    mig_profile,
    credit_started_at,
    credit_ended_at,
    reason,
    cast(sum(device_seconds) as bigint) as device_seconds,
    sum(credit_nanos) as credit_nanos,
    currency
from fct_outage_credits
where billing_period = $period and belongs_to = 'tenant'
group by all
having sum(credit_nanos) <> 0
order by tenant, credit_started_at, gpu_class, mig_profile
