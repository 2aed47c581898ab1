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

),

charges as (

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
        sum(left_part) as left_part,
        sum(right_part) as right_part
    from sides
    group by all

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
    cast(left_part as decimal(38, 0)) as left_sum,
    cast(right_part as decimal(38, 0)) as right_sum
from charges
union all
select
    'cluster ' || clusters.cluster_id as place,
    cast(coalesce(sum(charges.left_part), 0) as decimal(38, 0)) as left_sum,
    cast(coalesce(sum(charges.right_part), 0) as decimal(38, 0)) as right_sum
from clusters
left join charges
    on clusters.cluster_id = charges.cluster_id
group by all
