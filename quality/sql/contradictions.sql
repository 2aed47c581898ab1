-- Contradictions of the Kubernetes journal, counted by kind, each with its first example.
select
    cluster_id,
    concat(object_kind, ' ', contradiction) as contradiction,
    count(*) as contradiction_count,
    min_by(
        concat(object_uid, ': ', before_value, ', then ', after_value),
        (observed_at, object_uid, before_value, after_value)
    ) as example,
    min(observed_at) as first_observed_at,
    max(observed_at) as last_observed_at
from marts.fct_contradictions
where
    billing_period = $period
    and source = 'kubernetes'
group by all
order by all
