-- One row per cluster and source, to compare its hours with those of the calendar. Amounts are
-- text, because a data frame has no exact type for them.
select
    cluster_id,
    source,
    count(*) as hour_count,
    count(distinct hour_started_at) as distinct_hour_count,
    cast(sum(expected_count) as varchar) as expected_count,
    cast(sum(seen_count + missing_count) as varchar) as accounted_count,
    cast(min(expected_count) as bigint) as smallest_expected_count,
    cast(min(least(seen_count, missing_count)) as bigint) as smallest_count
from marts.fct_coverage
where billing_period = $period
group by cluster_id, source
order by cluster_id, source
