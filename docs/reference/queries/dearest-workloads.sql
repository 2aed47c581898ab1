-- Which workloads cost most?
--
-- Workloads are owners at the top: a Deployment, a Job, a StatefulSet. The first twenty.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No workload of a tenant used anything in this period.
select
    periods.tenant,
    periods.workload_kind,
    periods.workload_name,
    cast(sum(periods.pod_count) as bigint) as pod_count,
    cast(sum(periods.billable_device_seconds) as bigint) as device_seconds,
    sum(periods.cost_nanos) as cost_nanos,
    periods.currency
from fct_workload_periods as periods
where
    periods.billing_period = $period
    and periods.tenant in (
        select tenant from dim_tenants where billing_period = $period and belongs_to = 'tenant'
    )
group by all
order by cost_nanos desc, device_seconds desc, tenant asc, workload_kind asc, workload_name asc
limit 20
