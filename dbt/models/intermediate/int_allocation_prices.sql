with

allocations as (

    select * from {{ ref('int_allocations') }}

),

decision_sets as (

    select
        decision_set_number,
        min(started_second) as decision_set_started_second
    from {{ ref('int_segments') }}
    group by decision_set_number

),

-- Outages of a cluster, a node and a pod may overlap.
outage_sets as (

    select distinct
        allocations.allocation_number,
        decision_sets.decision_set_number
    from allocations
    inner join {{ ref('stg_decisions__outages') }} as outages
        on
            allocations.cluster_id = outages.cluster_id
            and outages.node_name in ('', allocations.node_name)
            and outages.pod_uid in ('', allocations.pod_uid)
    inner join decision_sets
        on
            decision_sets.decision_set_started_second >= outages.started_second
            and decision_sets.decision_set_started_second < outages.ended_second

),

-- No decision changes within a set of decisions, so those valid at its start are valid until its
-- end.
decisions as (

    select
        allocations.allocation_number,
        decision_sets.decision_set_number,
        coalesce(tenant_intervals.belongs_to, 'tenant') as belongs_to,
        policies.policy_value as billable_state,
        outage_sets.allocation_number is not null as is_outage,
        coalesce(rate_intervals.is_profile_price, false) as is_profile_price,
        rate_intervals.rate_id is not null
        and (rate_intervals.is_profile_price or weights.weight_numerator is not null) as is_priced,
        weights.weight_policy,
        weights.weight_numerator,
        weights.weight_denominator,
        allocations.replica_count,
        rate_intervals.rate_id,
        rate_intervals.currency,
        rate_intervals.rate_nanos_per_hour,
        rate_intervals.valid_from_second,
        rate_intervals.valid_until_second,
        parameters.period_started_second,
        parameters.period_ended_second
    from allocations
    cross join decision_sets
    cross join {{ ref('stg_parameters') }} as parameters
    inner join {{ ref('stg_decisions__policies') }} as policies
        on
            policies.policy = 'billable_state'
            and decision_sets.decision_set_started_second >= policies.valid_from_second
            and decision_sets.decision_set_started_second < policies.valid_until_second
    left join outage_sets
        on
            allocations.allocation_number = outage_sets.allocation_number
            and decision_sets.decision_set_number = outage_sets.decision_set_number
    left join {{ ref('stg_decisions__tenant_intervals') }} as tenant_intervals
        on
            allocations.namespace = tenant_intervals.namespace
            and decision_sets.decision_set_started_second >= tenant_intervals.valid_from_second
            and decision_sets.decision_set_started_second < tenant_intervals.valid_until_second
    left join {{ ref('stg_devices__weights') }} as weights
        on
            allocations.labels_sha256 = weights.labels_sha256
            and allocations.resource = weights.resource
            and decision_sets.decision_set_started_second >= weights.valid_from_second
            and decision_sets.decision_set_started_second < weights.valid_until_second
    left join {{ ref('stg_decisions__rate_intervals') }} as rate_intervals
        on
            allocations.cluster_id = rate_intervals.cluster_id
            and allocations.gpu_class = rate_intervals.gpu_class
            and allocations.mig_profile = rate_intervals.mig_profile
            and decision_sets.decision_set_started_second >= rate_intervals.valid_from_second
            and decision_sets.decision_set_started_second < rate_intervals.valid_until_second

)

-- The price of a profile is per instance of the profile; any other price is per whole card.
select
    allocation_number,
    decision_set_number,
    belongs_to,
    billable_state,
    is_outage,
    case when is_profile_price then 'price of the profile' else coalesce(weight_policy, '') end
        as weight_policy,
    case when is_profile_price then 1 else coalesce(weight_numerator, 0) end as weight_numerator,
    case when is_profile_price then replica_count else coalesce(weight_denominator, 1) end
        as weight_denominator,
    case when is_priced then rate_id else '' end as rate_id,
    case when is_priced then currency else '' end as currency,
    case when is_priced then rate_nanos_per_hour else 0 end as rate_nanos_per_hour,
    case when is_priced then valid_from_second else period_started_second end
        as charge_started_second,
    case when is_priced then valid_until_second else period_ended_second end
        as charge_ended_second
from decisions
