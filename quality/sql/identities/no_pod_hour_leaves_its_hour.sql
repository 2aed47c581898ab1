-- No segment of a pod hour leaves its hour or is billed for longer than it lasts. Microseconds are
-- compared, because adding an interval to a time with a zone is slow.
with

clusters as (

    select distinct cluster_id
    from marts.fct_coverage
    where billing_period = $period

),

pod_hours as (

    select
        cluster_id,
        billable_seconds,
        epoch_us(hour_started_at) as hour_us,
        epoch_us(segment_started_at) as started_us,
        epoch_us(segment_ended_at) as ended_us
    from marts.fct_pod_hours
    where billing_period = $period

)

select
    'cluster ' || clusters.cluster_id as place,
    count(*) filter (
        where
        pod_hours.started_us < pod_hours.hour_us
        or pod_hours.ended_us > pod_hours.hour_us + 3600000000
        or pod_hours.ended_us < pod_hours.started_us
        or pod_hours.billable_seconds * 1000000 > pod_hours.ended_us - pod_hours.started_us
    ) as left_sum,
    0 as right_sum
from clusters
left join pod_hours
    on clusters.cluster_id = pod_hours.cluster_id
group by all
