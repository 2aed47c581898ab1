-- Invariant 5: every cost is apportioned once, and the parts add up to the whole with ==.
select
    charges.tenant,
    charges.rate_id,
    charges.cost_nanos,
    pod_hours.cost_nanos as pod_hour_nanos
from {{ ref('fct_charges') }} as charges
full outer join (
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
        sum(cost_nanos) as cost_nanos,
        sum(billable_seconds * device_count) as device_seconds
    from {{ ref('fct_pod_hours') }}
    group by
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        rate_id
    having sum(billable_seconds) > 0
) as pod_hours
    on
        charges.tenant = pod_hours.tenant
        and charges.belongs_to = pod_hours.belongs_to
        and charges.cluster_id = pod_hours.cluster_id
        and charges.gpu_class = pod_hours.gpu_class
        and charges.mig_profile = pod_hours.mig_profile
        and charges.weight_numerator = pod_hours.weight_numerator
        and charges.weight_denominator = pod_hours.weight_denominator
        and charges.weight_policy = pod_hours.weight_policy
        and charges.rate_id = pod_hours.rate_id
where
    charges.cost_nanos is null
    or pod_hours.cost_nanos is null
    or charges.cost_nanos <> pod_hours.cost_nanos
    or charges.device_seconds <> pod_hours.device_seconds
