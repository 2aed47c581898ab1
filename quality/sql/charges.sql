-- The charges of each cluster; a cluster without any has one row without values.
with

clusters as (

    select cluster_id
    from marts.fct_coverage
    where billing_period = $period
    union
    select cluster_id
    from marts.fct_charges
    where billing_period = $period

),

charges as (

    select *
    from marts.fct_charges
    where billing_period = $period

)

select
    clusters.cluster_id,
    charges.rate_id,
    charges.device_seconds,
    charges.weight_numerator,
    charges.weight_denominator,
    charges.rate_nanos_per_hour,
    charges.cost_nanos
from clusters
left join charges
    on clusters.cluster_id = charges.cluster_id
order by all
