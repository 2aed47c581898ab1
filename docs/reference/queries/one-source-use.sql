-- Which tenants are billed by one source?
--
-- Device-seconds of each tenant by evidence. A close is refused if gaps exceed the limit of the
-- policy.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No tenant used a GPU in this period.
select
    tenant,
    method,
    method_reason,
    cast(sum(billable_seconds * device_count) as bigint) as device_seconds,
    sum(cost_nanos) as cost_nanos,
    currency
from fct_pod_hours
where billing_period = $period and belongs_to = 'tenant' and state = 'running'
group by all
order by tenant asc, device_seconds desc, method asc, method_reason asc
