-- No segment of a pod hour leaves its hour or is billed for longer than it lasts.
with

clusters as (

    select distinct cluster_id
    from marts.fct_coverage
    where billing_period = $period

),

pod_hours as (

    select *
    from marts.fct_pod_hours
    where billing_period = $period

)

select
    'cluster ' || clusters.cluster_id as place,
    count(*) filter (
        where
        pod_hours.segment_started_at < pod_hours.hour_started_at
        or pod_hours.segment_ended_at > pod_hours.hour_started_at + interval 1 hour
        or pod_hours.segment_ended_at < pod_hours.segment_started_at
        or pod_hours.billable_seconds
        > epoch(pod_hours.segment_ended_at - pod_hours.segment_started_at)
    ) as left_sum,
    0 as right_sum
from clusters
left join pod_hours
    on clusters.cluster_id = pod_hours.cluster_id
group by all
