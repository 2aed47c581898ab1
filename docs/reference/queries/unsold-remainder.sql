-- How much capacity cannot be sold because of MIG layouts?
--
-- Shares of cards that no instance covers, in seconds of whole cards, per dimension: seven
-- instances 1g.5gb leave an eighth of the memory uncovered.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: All cards are fully covered by their instances.
with names as (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters group by all
)

select
    names.cluster_name,
    hours.node_name,
    hours.gpu_class,
    hours.dimension,
    cast(sum(hours.unsold_share_seconds) as hugeint) // max(hours.share_denominator)
        as unsold_card_seconds,
    cast(sum(hours.installed_share_seconds) as hugeint) // max(hours.share_denominator)
        as installed_card_seconds
from fct_node_share_hours as hours
inner join names on hours.cluster_id = names.cluster_id
where hours.billing_period = $period
group by all
having sum(hours.unsold_share_seconds) > 0
order by unsold_card_seconds desc, cluster_name asc, node_name asc, gpu_class asc, dimension asc
