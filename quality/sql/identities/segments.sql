-- No two segments of a pod and resource overlap, and no segment leaves its hour or is billed for
-- longer than it lasts. Microseconds are compared, because adding an interval to a time with a zone
-- is slow.
with

clusters as (

    select distinct cluster_id
    from marts.fct_coverage
    where billing_period = $period

),

segments as (

    select
        cluster_id,
        billable_seconds,
        epoch_us(hour_started_at) as hour_us,
        epoch_us(segment_started_at) as started_us,
        epoch_us(segment_ended_at) as ended_us,
        epoch_us(lead(segment_started_at) over (
            partition by cluster_id, pod_uid, resource
            order by segment_started_at, segment_ended_at
        )) as next_started_us
    from marts.fct_pod_hours
    where billing_period = $period

)

select
    'cluster ' || clusters.cluster_id as place,
    count(*) filter (where segments.next_started_us < segments.ended_us) as overlap_count,
    0 as no_overlap_count,
    count(*) filter (
        where
        segments.started_us < segments.hour_us
        or segments.ended_us > segments.hour_us + 3600000000
        or segments.ended_us < segments.started_us
        or segments.billable_seconds * 1000000 > segments.ended_us - segments.started_us
    ) as outside_count,
    0 as no_outside_count
from clusters
left join segments
    on clusters.cluster_id = segments.cluster_id
group by all
