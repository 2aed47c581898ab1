-- Cost, billed device-seconds and tenants of each hour with billed use.
select
    cluster_id,
    hour_started_at,
    cast(sum(cost_nanos) as decimal(38, 0)) as cost_nanos,
    cast(sum(billable_seconds * device_count) as bigint) as device_seconds,
    list_sort(list(distinct tenant)) as tenants
from marts.fct_pod_hours
where
    billing_period = $period
    and belongs_to = 'tenant'
    and billable_seconds > 0
group by all
order by all
