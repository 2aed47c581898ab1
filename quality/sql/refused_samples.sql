-- Refused samples: a label is missing or invalid, or the value is not a count.
select
    cluster_id,
    metric,
    label_missing,
    label_invalid,
    first_sampled_at,
    last_sampled_at,
    series_count,
    sample_count,
    example
from marts.fct_refused_samples
where billing_period = $period
order by all
