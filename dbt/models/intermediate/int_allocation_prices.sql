with

allocations as (

    select * from {{ ref('int_allocations') }}

),

epochs as (

    select
        epoch_number,
        min(started_second) as epoch_started_second
    from {{ ref('int_segments') }}
    group by epoch_number

),

-- An epoch ends wherever one of these decisions changes: its start decides for all of it.
decided as (

    select
        allocations.allocation_number,
        epochs.epoch_number,
        coalesce(tenant_spans.belongs_to, 'tenant') as belongs_to,
        policies.policy_value as billable_state,
        outages.cluster_id is not null as is_outage,
        coalesce(rate_spans.is_profile_price, false) as is_profile_price,
        rate_spans.rate_id is not null
        and (rate_spans.is_profile_price or weights.weight_numerator is not null) as is_priced,
        weights.weight_policy,
        weights.weight_numerator,
        weights.weight_denominator,
        allocations.replica_count,
        rate_spans.rate_id,
        rate_spans.currency,
        rate_spans.rate_nanos_per_hour,
        rate_spans.valid_from_second,
        rate_spans.valid_until_second,
        parameters.period_started_second,
        parameters.period_ended_second
    from allocations
    cross join epochs
    cross join {{ ref('stg_parameters') }} as parameters
    inner join {{ ref('stg_decisions__policies') }} as policies
        on
            policies.policy = 'billable_state'
            and epochs.epoch_started_second >= policies.valid_from_second
            and epochs.epoch_started_second < policies.valid_until_second
    left join {{ ref('stg_decisions__outages') }} as outages
        on
            allocations.cluster_id = outages.cluster_id
            and epochs.epoch_started_second >= outages.started_second
            and epochs.epoch_started_second < outages.ended_second
    left join {{ ref('stg_decisions__tenant_spans') }} as tenant_spans
        on
            allocations.namespace = tenant_spans.namespace
            and epochs.epoch_started_second >= tenant_spans.valid_from_second
            and epochs.epoch_started_second < tenant_spans.valid_until_second
    left join {{ ref('stg_devices__weights') }} as weights
        on
            allocations.labels_sha256 = weights.labels_sha256
            and allocations.resource = weights.resource
            and epochs.epoch_started_second >= weights.valid_from_second
            and epochs.epoch_started_second < weights.valid_until_second
    left join {{ ref('stg_decisions__rate_spans') }} as rate_spans
        on
            allocations.cluster_id = rate_spans.cluster_id
            and allocations.gpu_class = rate_spans.gpu_class
            and allocations.mig_profile = rate_spans.mig_profile
            and epochs.epoch_started_second >= rate_spans.valid_from_second
            and epochs.epoch_started_second < rate_spans.valid_until_second

)

-- The price of a profile is for one instance of it; any other price is for a whole card.
select
    allocation_number,
    epoch_number,
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
from decided
