-- What is the cost per GPU class and MIG profile?
--
-- Tenants only. The rate is the rate of a whole card; a slice is billed by its weight.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No tenant used a GPU in this period.
select
    gpu_class,
    mig_profile,
    weight_numerator,
    weight_denominator,
    rate_nanos_per_hour as rate_per_hour_nanos,
    cast(sum(device_seconds) as bigint) as device_seconds,
    sum(cost_nanos) as cost_nanos,
    currency
from fct_charges
where billing_period = $period and belongs_to = 'tenant'
group by all
order by
    cost_nanos desc, gpu_class asc, mig_profile asc, weight_numerator asc, weight_denominator asc
