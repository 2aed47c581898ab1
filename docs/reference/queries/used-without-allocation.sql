-- Which devices were busy without an allocation?
--
-- Telemetry shows utilisation, and no pod holds the device: a process bypasses the scheduler. The
-- namespace comes from the exporter, if it has one.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No device was used without an allocation.
with names as (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters group by all
)

select
    names.cluster_name,
    uses.node_name,
    uses.gpu_index,
    uses.instance_id,
    uses.device_uuid,
    uses.namespace,
    count(*) as hour_count,
    max(uses.use_millionths_maximum) as use_millionths_maximum
from fct_gpu_use as uses
inner join names on uses.cluster_id = names.cluster_id
where uses.billing_period = $period and uses.is_used_unallocated
group by all
order by hour_count desc, cluster_name asc, node_name asc, gpu_index asc, instance_id asc
