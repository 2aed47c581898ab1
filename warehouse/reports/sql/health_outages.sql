-- The hours of pods with a fault of the provider, by pod or, for a fault of the whole node, by
-- node.
select distinct
    cluster_id,
    case when problem = 'node_not_ready' then node_name else '' end as node_name,
    case when problem = 'node_not_ready' then '' else pod_uid end as pod_uid,
    hour_started_at,
    problem,
    observed,
    device_uuid
from fct_gpu_health
where
    billing_period = $period
    and is_fault_of_provider
    and is_new
    and pod_uid <> ''
    and cost_nanos > 0
    and ($tenant = '' or tenant = $tenant)
order by all
