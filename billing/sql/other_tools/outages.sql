-- The segments of each pod that lie in an outage.
select
    cluster_id,
    pod_uid,
    segment_started_at,
    segment_ended_at
from marts.fct_pod_hours
where
    billing_period = $period
    and is_outage
order by all
