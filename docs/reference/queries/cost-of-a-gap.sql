-- What does the gap of a day cost, per tenant?
--
-- Time in which at most one source has evidence, per tenant: the billed part and its source, and
-- the observed part that was not billed. Without a day: the whole period.
--
-- param period = newest: the billing period, such as 2026-10
-- param day = : a day such as 2026-10-09; empty for the whole period
-- empty: All usage in this time has evidence of both sources.
select
    tenant,
    strftime(hour_started_at, '%Y-%m-%d') as usage_day,
    method,
    method_reason,
    treatment,
    cast(sum(billable_seconds * device_count) as bigint) as billed_device_seconds,
    cast(
        sum(
            (greatest(lifecycle_seconds, sampled_seconds, billable_seconds) - billable_seconds)
            * device_count
        ) as bigint
    ) as unbilled_device_seconds,
    cast(sum(uncertainty_seconds * device_count) as bigint) as uncertain_device_seconds,
    sum(cost_nanos) as cost_nanos,
    currency
from fct_pod_hours
where
    billing_period = $period
    and belongs_to = 'tenant'
    and state = 'running'
    and ($day = '' or strftime(hour_started_at, '%Y-%m-%d') = $day)
    and method <> 'confirmed'
    and method_reason not in ('too_short', 'window_edge', 'samples_not_expected', 'held')
group by all
order by tenant, usage_day, method, method_reason
