-- The first and the last hour of a period that was queried.
select
    min(hour_started_at) as first_hour_started_at,
    max(hour_started_at) as last_hour_started_at
from fct_coverage
where
    billing_period = $period
    and outcome <> 'not_asked'
