-- The hours of one pod with the class and profile of an invoice line.
select
    hour_started_at,
    segment_started_at,
    segment_ended_at,
    state,
    method,
    method_reason,
    billable_seconds,
    cost_nanos
from marts.fct_pod_hours
where
    billing_period = $period
    and cluster_id = $cluster_id
    and pod_uid = $pod_uid
    and gpu_class = $gpu_class
    and mig_profile = $mig_profile
order by all
