-- The tenants' pods of a cluster in a window, each as `tenant/name`.
select distinct concat(tenant, '/', pod_name) as pod
from marts.fct_pod_hours
where
    billing_period = $period
    and cluster_id = $cluster_id
    and belongs_to = 'tenant'
    and segment_started_at < $ended_at
    and segment_ended_at > $started_at
order by all
