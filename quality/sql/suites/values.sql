-- One row per cluster of the calendar, with or without use: the numbers of pod hours with
-- impossible values.
with

pod_hours as (

    select *
    from marts.fct_pod_hours
    where billing_period = $period

),

clusters as (

    select distinct cluster_id
    from marts.fct_coverage
    where billing_period = $period

)

select
    clusters.cluster_id,
    count(*) filter (
        where least(
            pod_hours.running_seconds,
            pod_hours.held_seconds,
            pod_hours.billable_seconds,
            pod_hours.uncertainty_seconds
        ) < 0
    ) as negative_count,
    count(*) filter (where pod_hours.cost_nanos < 0) as negative_cost_count,
    count(*) filter (where pod_hours.device_count < 1) as deviceless_count,
    count(*) filter (
        where pod_hours.tenant = '' or pod_hours.pod_uid = ''
    ) as nameless_count,
    count(*) filter (
        where
        pod_hours.weight_denominator < 1
        or pod_hours.weight_numerator < 0
        or pod_hours.weight_numerator > pod_hours.weight_denominator
    ) as impossible_weight_count,
    count(*) filter (where pod_hours.billable_seconds > 3600) as overlong_count
from clusters
left join pod_hours
    on clusters.cluster_id = pod_hours.cluster_id
group by clusters.cluster_id
order by clusters.cluster_id
