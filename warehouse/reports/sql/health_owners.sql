-- The workloads of a period by their top owner, with the use and the problems of their devices.
with

workloads as (

    select
        tenant,
        workload_kind,
        workload_name,
        currency,
        sum(running_seconds * device_count) as device_seconds,
        sum(cost_nanos) as cost_nanos,
        max(segment_ended_at) as last_seen_at
    from fct_pod_hours
    where
        billing_period = $period
        and ($tenant = '' or tenant = $tenant)
    group by all

),

pods as (

    select distinct
        tenant,
        workload_kind,
        workload_name,
        pod_uid
    from fct_pod_hours
    where billing_period = $period

),

idle_use as (

    select
        pods.tenant,
        pods.workload_kind,
        pods.workload_name,
        sum(gpu_use.idle_seconds) as idle_seconds,
        sum(gpu_use.idle_nanos) as idle_nanos
    from fct_gpu_use as gpu_use
    inner join pods
        on
            gpu_use.pod_uid = pods.pod_uid
            and gpu_use.tenant = pods.tenant
    where gpu_use.billing_period = $period
    group by all

),

problem_times as (

    select
        pods.tenant,
        pods.workload_kind,
        pods.workload_name,
        count(distinct health.hour_started_at) as problem_hours
    from fct_gpu_health as health
    inner join pods
        on
            health.pod_uid = pods.pod_uid
            and health.tenant = pods.tenant
    where health.billing_period = $period
    group by all

),

newest as (

    select max(segment_ended_at) as newest_at
    from fct_pod_hours
    where billing_period = $period

)

select
    workloads.tenant,
    workloads.workload_kind,
    workloads.workload_name,
    case
        when workloads.last_seen_at < newest.newest_at - interval 1 hour then 'ended'
        when coalesce(problem_times.problem_hours, 0) > 0 then 'affected'
        else 'running'
    end as status,
    coalesce(problem_times.problem_hours, 0) as problem_hours,
    workloads.device_seconds,
    coalesce(idle_use.idle_seconds, 0) as idle_seconds,
    workloads.cost_nanos,
    coalesce(idle_use.idle_nanos, 0) as idle_nanos,
    workloads.currency
from workloads
cross join newest
left join idle_use
    on
        workloads.tenant = idle_use.tenant
        and workloads.workload_kind = idle_use.workload_kind
        and workloads.workload_name = idle_use.workload_name
left join problem_times
    on
        workloads.tenant = problem_times.tenant
        and workloads.workload_kind = problem_times.workload_kind
        and workloads.workload_name = problem_times.workload_name
order by
    workloads.cost_nanos desc,
    workloads.tenant asc,
    workloads.workload_kind asc,
    workloads.workload_name asc,
    workloads.currency asc
