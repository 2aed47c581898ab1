-- Intervals without evidence of a source, to the second.
select
    cluster_id,
    source,
    gap_started_at,
    gap_ended_at
from marts.fct_gaps
where billing_period = $period
order by all
