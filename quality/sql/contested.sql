-- Segments decided by a rule of `reconciliation_rules` that names a finding.
with

contradictions as (

    select
        cluster_id,
        object_uid as pod_uid,
        string_agg(
            concat(contradiction, ' (', before_value, ' and ', after_value, ')'),
            ', '
            order by contradiction, before_value, after_value
        ) as statements
    from marts.fct_contradictions
    where
        billing_period = $period
        and source <> 'kubernetes'
    group by all

)

select
    pod_hours.cluster_id,
    pod_hours.namespace,
    pod_hours.pod_uid,
    pod_hours.pod_name,
    pod_hours.resource,
    pod_hours.method,
    pod_hours.method_reason,
    min(pod_hours.segment_started_at) as started_at,
    max(pod_hours.segment_ended_at) as ended_at,
    cast(sum(
        greatest(
            epoch(pod_hours.segment_ended_at - pod_hours.segment_started_at),
            pod_hours.uncertainty_seconds
        ) * pod_hours.device_count
    ) as bigint) as device_seconds,
    cast(sum(pod_hours.cost_nanos) as decimal(38, 0)) as cost_nanos,
    coalesce(
        any_value(contradictions.statements) filter (
            where list_contains($contradictory_reasons, pod_hours.method_reason)
        ),
        ''
    ) as statements
from marts.fct_pod_hours as pod_hours
left join contradictions
    on
        pod_hours.cluster_id = contradictions.cluster_id
        and pod_hours.pod_uid = contradictions.pod_uid
where
    pod_hours.billing_period = $period
    and list_contains($finding_reasons, pod_hours.method_reason)
group by all
order by all
