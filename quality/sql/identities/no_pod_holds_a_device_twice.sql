-- No two segments of a pod and resource overlap.
with

clusters as (

    select distinct cluster_id
    from marts.fct_coverage
    where billing_period = $period

),

following as (

    select
        cluster_id,
        pod_uid,
        resource,
        segment_ended_at,
        lead(segment_started_at) over (
            partition by cluster_id, pod_uid, resource
            order by segment_started_at, segment_ended_at
        ) as next_started_at
    from marts.fct_pod_hours
    where billing_period = $period

)

select
    'cluster ' || clusters.cluster_id as place,
    count(*) filter (where following.next_started_at < following.segment_ended_at) as left_sum,
    0 as right_sum
from clusters
left join following
    on clusters.cluster_id = following.cluster_id
group by all
