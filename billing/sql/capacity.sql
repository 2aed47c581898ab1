-- The capacity of each cluster, class and dimension, and the terms that add up to it.
select
    cluster_id,
    gpu_class,
    dimension,
    share_denominator,
    cast(sum(installed_share_seconds) as decimal(38, 0)) as installed,
    cast(sum(overallocated_share_seconds) as decimal(38, 0)) as overallocated,
    cast(sum(running_share_seconds) as decimal(38, 0)) as running,
    cast(sum(held_share_seconds) as decimal(38, 0)) as held,
    cast(sum(idle_share_seconds) as decimal(38, 0)) as idle,
    cast(sum(unsold_share_seconds) as decimal(38, 0)) as unsold,
    cast(sum(unhealthy_share_seconds) as decimal(38, 0)) as unhealthy,
    cast(sum(withdrawn_share_seconds) as decimal(38, 0)) as withdrawn,
    cast(sum(unmeasured_share_seconds) as decimal(38, 0)) as unmeasured
from marts.fct_node_share_hours
where billing_period = $period
group by all
order by all
