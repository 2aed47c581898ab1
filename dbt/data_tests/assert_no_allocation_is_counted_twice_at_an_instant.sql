-- Invariant 6: the parts of one pod and resource do not overlap.
select *
from (
    select
        cluster_id,
        pod_uid,
        resource,
        segment_started_at,
        segment_ended_at,
        lag(segment_ended_at) over (
            partition by cluster_id, pod_uid, resource
            order by segment_started_at, segment_ended_at
        ) as previous_ended_at
    from {{ ref('fct_pod_hours') }}
    where running_seconds + held_seconds > 0
) as parts
where previous_ended_at > segment_started_at
