-- How was the capacity used?
--
-- Seconds of card shares per cluster, class and dimension, in seconds of whole cards, rounded
-- down. In `fct_node_share_hours` the terms add up to the installed capacity exactly.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No node was counted in this period.
with names as (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters group by all
)

select
    names.cluster_name,
    hours.gpu_class,
    hours.dimension,
    cast(sum(installed_share_seconds) as hugeint) // max(share_denominator) as installed_seconds,
    cast(sum(running_share_seconds) as hugeint) // max(share_denominator) as running_seconds,
    cast(sum(held_share_seconds) as hugeint) // max(share_denominator) as held_seconds,
    cast(sum(idle_share_seconds) as hugeint) // max(share_denominator) as idle_seconds,
    cast(sum(unsold_share_seconds) as hugeint) // max(share_denominator) as unsold_seconds,
    cast(sum(unhealthy_share_seconds) as hugeint) // max(share_denominator) as unhealthy_seconds,
    cast(sum(withdrawn_share_seconds) as hugeint) // max(share_denominator) as withdrawn_seconds,
    cast(sum(unmeasured_share_seconds) as hugeint) // max(share_denominator) as unmeasured_seconds
from fct_node_share_hours as hours
inner join names on hours.cluster_id = names.cluster_id
where hours.billing_period = $period
group by all
having sum(installed_share_seconds) > 0
order by all
