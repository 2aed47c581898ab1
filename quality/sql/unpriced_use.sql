-- Billed use of tenants on a known class without a price.
select
    cluster_id,
    gpu_class,
    mig_profile,
    resource,
    list_sort(list(distinct tenant)) as tenants,
    min(hour_started_at) as first_hour_started_at,
    max(hour_started_at) as last_hour_started_at,
    cast(sum(billable_seconds * device_count) as bigint) as device_seconds
from marts.fct_pod_hours
where
    billing_period = $period
    and billable_seconds > 0
    and belongs_to = 'tenant'
    and gpu_class <> ''
    and rate_id = ''
group by all
order by all
