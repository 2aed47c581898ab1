-- How much of the cost was for idle devices?
--
-- Device-hours of running pods for which telemetry has nine of ten samples and none of them shows
-- use, per workload, with their share of the pod's cost. Missing telemetry is never counted as
-- idle.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No device of a tenant was idle for a whole hour according to telemetry.
with pods as (
    select distinct
        cluster_id,
        pod_uid,
        workload_kind,
        workload_name,
        currency
    from fct_pod_periods
    where billing_period = $period
)

select
    uses.tenant,
    pods.workload_kind,
    pods.workload_name,
    count(*) as idle_device_hour_count,
    cast(sum(uses.idle_seconds) as bigint) as idle_device_seconds,
    sum(uses.idle_nanos) as idle_cost_nanos,
    pods.currency
from fct_gpu_use as uses
inner join pods on uses.cluster_id = pods.cluster_id and uses.pod_uid = pods.pod_uid
where
    uses.billing_period = $period
    and uses.is_idle
    and uses.tenant in (
        select tenant from dim_tenants where billing_period = $period and belongs_to = 'tenant'
    )
group by all
order by
    idle_cost_nanos desc, idle_device_seconds desc, tenant asc, workload_kind asc, workload_name asc
