-- How much of the quotas is used?
--
-- The maxima of used and allocated devices in an hour of the period, the quota, and the number of
-- hours in which the quota was full.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: There was no quota for GPUs in this period.
with names as (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters group by all
)

select
    quotas.tenant,
    names.cluster_name,
    quotas.resource,
    max(quotas.hard_count) as hard_count,
    max(quotas.used_count) as used_count_max,
    max(quotas.allocated_count_max) as allocated_count_max,
    count(*) as hour_count,
    count(*) filter (where quotas.used_count >= quotas.hard_count) as full_hour_count
from fct_quotas as quotas
inner join names on quotas.cluster_id = names.cluster_id
where quotas.billing_period = $period
group by all
order by full_hour_count desc, quotas.tenant asc, names.cluster_name asc, quotas.resource asc
