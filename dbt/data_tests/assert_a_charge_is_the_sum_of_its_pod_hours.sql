-- Invariant 5: every cost is apportioned once, and the parts add up to the whole with ==.
with

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
        cost_nanos,
        device_seconds
    from {{ ref('fct_charges') }}

),

pod_hours as (

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
    group by all
    having sum(billable_seconds) > 0

)

(
    select * from charges
    except all
    select * from pod_hours
)
union all
(
    select * from pod_hours
    except all
    select * from charges
)
