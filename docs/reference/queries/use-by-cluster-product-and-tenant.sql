-- What are utilisation, memory and power by cluster, product and tenant?
--
-- Averages over the device-hours that have the reading, for NVIDIA and AMD. Rows without a tenant
-- are hours in which no pod held the device. Power is measured per card, not per MIG instance.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No device has utilisation samples.
with names as (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters group by all
)

select
    names.cluster_name,
    uses.model_name,
    uses.tenant,
    count(*) as device_hour_count,
    sum(uses.use_millionths_average)::bigint // count(uses.use_millionths_average)
        as use_millionths_average,
    sum(uses.memory_used_mib_average)::bigint // count(uses.memory_used_mib_average)
        as memory_used_mib_average,
    sum(uses.power_milliwatts_average)::bigint // count(uses.power_milliwatts_average)
        as power_milliwatts_average,
    max(uses.power_milliwatts_maximum) as power_milliwatts_maximum
from fct_gpu_use as uses
inner join names on uses.cluster_id = names.cluster_id
where uses.billing_period = $period
group by all
order by device_hour_count desc, cluster_name asc, model_name asc, tenant asc
