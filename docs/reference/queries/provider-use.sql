-- How much does the provider use?
--
-- Namespaces that belong to the provider, at the price for tenants. They are on no invoice.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: The provider used no GPU in this period.
select
    tenant as namespace,
    gpu_class,
    mig_profile,
    cast(sum(billable_device_seconds) as bigint) as device_seconds,
    sum(cost_nanos) as cost_nanos,
    currency
from fct_tenant_periods
where billing_period = $period and belongs_to = 'provider'
group by all
order by cost_nanos desc, namespace asc, gpu_class asc, mig_profile asc
