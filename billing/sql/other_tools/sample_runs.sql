-- The runs of samples of each pod without a gap.
select
    cluster_id,
    pod_uid,
    first_sampled_at,
    last_sampled_at
from marts.fct_sampled_pods
where billing_period = $period
order by all
