-- The costs of pod hours add up to the cost of their charge.
with

clusters as (

    select distinct cluster_id
    from marts.fct_coverage
    where billing_period = $period

),

sides as (

    select
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        rate_id,
        cast(0 as decimal(38, 0)) as left_part,
        cost_nanos as right_part
    from marts.fct_charges
    where billing_period = $period
    union all
    select
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        rate_id,
        cost_nanos as left_part,
        0 as right_part
    from marts.fct_pod_hours
    where billing_period = $period

)

select
    concat_ws(
        ' ',
        'charge of',
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        rate_id
    ) as place,
    cast(sum(left_part) as decimal(38, 0)) as left_sum,
    cast(sum(right_part) as decimal(38, 0)) as right_sum
from sides
group by all
union all
select
    'cluster ' || clusters.cluster_id as place,
    cast(coalesce(sum(sides.left_part), 0) as decimal(38, 0)) as left_sum,
    cast(coalesce(sum(sides.right_part), 0) as decimal(38, 0)) as right_sum
from clusters
left join sides
    on clusters.cluster_id = sides.cluster_id
group by all
