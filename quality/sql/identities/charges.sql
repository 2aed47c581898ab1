-- The billed device-seconds and the costs of pod hours add up to those of their charge.
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
        cast(0 as bigint) as pod_seconds,
        device_seconds as charge_seconds,
        cast(0 as decimal(38, 0)) as pod_nanos,
        cost_nanos as charge_nanos
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
        billable_seconds * device_count as pod_seconds,
        0 as charge_seconds,
        cost_nanos as pod_nanos,
        0 as charge_nanos
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
        sum(pod_seconds) as pod_seconds,
        sum(charge_seconds) as charge_seconds,
        sum(pod_nanos) as pod_nanos,
        sum(charge_nanos) as charge_nanos
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
    pod_seconds,
    charge_seconds,
    pod_nanos,
    charge_nanos
from charges
union all
select
    'cluster ' || clusters.cluster_id as place,
    coalesce(sum(charges.pod_seconds), 0) as pod_seconds,
    coalesce(sum(charges.charge_seconds), 0) as charge_seconds,
    coalesce(sum(charges.pod_nanos), 0) as pod_nanos,
    coalesce(sum(charges.charge_nanos), 0) as charge_nanos
from clusters
left join charges
    on clusters.cluster_id = charges.cluster_id
group by all
