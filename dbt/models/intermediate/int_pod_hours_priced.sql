with

allocations as (

    select * from {{ ref('int_allocations_split_to_hours') }}

),

tenant_spans as (

    select * from {{ ref('stg_decisions__tenant_spans') }}

),

rate_spans as (

    select * from {{ ref('stg_decisions__rate_spans') }}

),

weights as (

    select * from {{ ref('stg_devices__weights') }}

),

policies as (

    select * from {{ ref('stg_decisions__policies') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

billable_states as (

    select
        policy_value as billable_state,
        valid_from_second,
        valid_until_second
    from policies
    where policy = 'billable_state'

),

-- Segments are cut wherever one of these changes, so the start of a piece decides for all of it.
joined as (

    select
        allocations.*,
        parameters.billing_period,
        coalesce(tenant_spans.belongs_to, 'tenant') as belongs_to,
        billable_states.billable_state,
        weights.weight_policy as share_weight_policy,
        weights.weight_numerator as share_weight_numerator,
        weights.weight_denominator as share_weight_denominator,
        rate_spans.rate_id as valid_rate_id,
        rate_spans.is_profile_price,
        rate_spans.currency as rate_currency,
        rate_spans.rate_nanos_per_hour as valid_rate_nanos_per_hour,
        rate_spans.valid_from_second as rate_from_second,
        rate_spans.valid_until_second as rate_until_second,
        parameters.period_started_second,
        parameters.period_ended_second
    from allocations
    cross join parameters
    inner join billable_states
        on
            allocations.started_second >= billable_states.valid_from_second
            and allocations.started_second < billable_states.valid_until_second
    left join tenant_spans
        on
            allocations.namespace = tenant_spans.namespace
            and allocations.started_second >= tenant_spans.valid_from_second
            and allocations.started_second < tenant_spans.valid_until_second
    left join weights
        on
            allocations.labels_sha256 = weights.labels_sha256
            and allocations.resource = weights.resource
            and allocations.started_second >= weights.valid_from_second
            and allocations.started_second < weights.valid_until_second
    left join rate_spans
        on
            allocations.cluster_id = rate_spans.cluster_id
            and allocations.gpu_class = rate_spans.gpu_class
            and allocations.mig_profile = rate_spans.mig_profile
            and allocations.started_second >= rate_spans.valid_from_second
            and allocations.started_second < rate_spans.valid_until_second

),

-- A price of a profile is for one such instance as it is; any other price is for a whole card.
weighted as (

    select
        *,
        valid_rate_id is not null
        and (is_profile_price or share_weight_numerator is not null) as is_priced,
        case
            when is_profile_price then 'price of the profile'
            else coalesce(share_weight_policy, '')
        end as weight_policy,
        case when is_profile_price then 1 else coalesce(share_weight_numerator, 0) end
            as weight_numerator,
        case when is_profile_price then replica_count else coalesce(share_weight_denominator, 1) end
            as weight_denominator
    from joined

),

priced as (

    select
        billing_period,
        cluster_id,
        pod_uid,
        resource_key,
        hour_second,
        started_second,
        ended_second,
        allocation_state,
        method,
        method_reason,
        treatment,
        namespace,
        belongs_to,
        device_count,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        uncertainty_seconds,
        lifecycle_seconds,
        sampled_seconds,
        case when allocation_state = 'running' then counted_seconds else 0 end as running_seconds,
        case when allocation_state = 'held' then counted_seconds else 0 end as held_seconds,
        case
            when treatment in ('bill_nothing', 'waive') then 0
            when allocation_state = 'running' or billable_state = 'held' then counted_seconds
            else 0
        end as billable_seconds,
        case when is_priced then valid_rate_id else '' end as rate_id,
        case when is_priced then rate_currency else '' end as currency,
        case when is_priced then valid_rate_nanos_per_hour else 0 end as rate_nanos_per_hour,
        case when is_priced then rate_from_second else period_started_second end
            as charge_started_second,
        case when is_priced then rate_until_second else period_ended_second end
            as charge_ended_second
    from weighted

)

select * from priced
