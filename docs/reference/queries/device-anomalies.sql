-- Which devices had unusual readings?
--
-- Power that does not match the utilisation, memory without a pod, or a temperature or utilisation
-- that differs from the same hours of other days; with the hour of the largest deviation.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No device had an unusual reading.
with names as (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters group by all
)

select
    names.cluster_name,
    anomalies.node_name,
    anomalies.gpu_index,
    anomalies.instance_id,
    anomalies.device_uuid,
    anomalies.rule_name,
    anomalies.reading,
    count(*) as hour_count,
    min(anomalies.hour_started_at) as first_hour_started_at,
    max(anomalies.hour_started_at) as last_hour_started_at,
    arg_max(anomalies.observed, abs(anomalies.observed - anomalies.expected)) as observed,
    arg_max(anomalies.expected, abs(anomalies.observed - anomalies.expected)) as expected,
    arg_max(anomalies.deviation_limit, abs(anomalies.observed - anomalies.expected))
        as deviation_limit
from fct_device_anomalies as anomalies
inner join names on anomalies.cluster_id = names.cluster_id
where anomalies.billing_period = $period and anomalies.status = 'anomaly'
group by all
order by hour_count desc, cluster_name asc, node_name asc, gpu_index asc, instance_id asc, rule_name asc
