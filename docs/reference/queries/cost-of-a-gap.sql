-- What did the gap on a day cost, and whom?
--
-- Time of which one source or none can speak, per tenant: what was billed of it all the same, on
-- whose word, and what was seen by somebody and not billed. Without a day: the whole period.
--
-- param period = newest: the billing period, such as 2026-10
-- param day = : a day such as 2026-10-09; empty for the whole period
-- empty: Nothing that was used then rests on less than two sources.
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
