-- Which times were not measured?
--
-- Times without evidence of a source, per cluster. A time in which both sources lack evidence is
-- unmeasured; if one source has evidence, it is billed by that source.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: Both sources have evidence for all expected time.
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
