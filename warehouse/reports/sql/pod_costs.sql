-- The cost of each pod in the last complete hour of its tenant, and in the 24 hours until the end
-- of this hour.
select
    pods.billing_period,
    pods.tenant,
    pods.cluster_id,
    pods.pod_uid,
    pods.pod_name,
    pods.workload_kind,
    pods.workload_name,
    pods.gpu_class,
    pods.mig_profile,
    pods.currency,
    sum(
        case
            when pods.hour_started_at = last_complete_hours.hour_started_at then pods.cost_nanos
            else 0
        end
    ) as last_hour_cost_nanos,
    sum(pods.cost_nanos) as last_day_cost_nanos
from fct_pod_hours as pods
inner join last_complete_hours
    on
        pods.billing_period = last_complete_hours.billing_period
        and pods.tenant = last_complete_hours.tenant
        and pods.hour_started_at <= last_complete_hours.hour_started_at
        and pods.hour_started_at > last_complete_hours.hour_started_at - interval 24 hour
where pods.belongs_to = 'tenant'
group by all
having sum(pods.cost_nanos) > 0
