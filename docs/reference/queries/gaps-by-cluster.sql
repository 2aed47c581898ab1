-- What was not measured?
--
-- Stretches that a source does not show, per cluster. Two sources that miss the same stretch
-- leave it to nobody; one that misses it alone does not.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: Both sources saw every second that they were expected to see.
with names as (
    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters group by all
)

select
    names.cluster_name,
    gaps.source,
    gaps.gap_started_at,
    gaps.gap_ended_at,
    cast(epoch(gaps.gap_ended_at) - epoch(gaps.gap_started_at) as bigint) as gap_seconds
from fct_gaps as gaps
inner join names on gaps.cluster_id = names.cluster_id
where gaps.billing_period = $period
order by names.cluster_name, gaps.gap_started_at, gaps.source, gaps.gap_ended_at
