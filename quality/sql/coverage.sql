-- Coverage of each hour that the calendar expects.
select
    cluster_id,
    source,
    hour_started_at,
    expected_count,
    seen_count,
    missing_count,
    outcome,
    reason,
    backfillable,
    pod_missing_count
from marts.fct_coverage
where billing_period = $period
order by all
