-- Expected and missing samples of each metric and hour.
select
    cluster_id,
    hour_started_at,
    metric,
    expected_count,
    missing_count
from marts.fct_metric_coverage
where billing_period = $period
order by all
