-- Which workloads cost most?
--
-- A workload is a top owner: a Deployment, a Job, a StatefulSet. The first twenty, with the cost
-- of the last counted hour and the expected cost of the period at the rate of its last days.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No workload of a tenant used a GPU in this period.
with

used as (

    select
        tenant,
        workload_kind,
        workload_name,
        currency,
        cast(sum(pod_count) as bigint) as pod_count,
        cast(sum(billable_device_seconds) as bigint) as device_seconds
    from fct_workload_periods
    where billing_period = $period
    group by all

)

select
    used.tenant,
    used.workload_kind,
    used.workload_name,
    used.pod_count,
    used.device_seconds,
    forecasts.cost_nanos,
    forecasts.last_hour_cost_nanos,
    forecasts.forecast_nanos,
    used.currency
from used
inner join fct_forecasts as forecasts
    on
        forecasts.subject = 'workload'
        and used.tenant = forecasts.tenant
        and used.workload_kind = forecasts.workload_kind
        and used.workload_name = forecasts.workload_name
        and used.currency = forecasts.currency
where forecasts.billing_period = $period
order by
    cost_nanos desc, device_seconds desc, tenant asc, workload_kind asc, workload_name asc
limit 20
