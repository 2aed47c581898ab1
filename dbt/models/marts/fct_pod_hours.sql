with

pieces as (

    select * from {{ ref('int_pieces_apportioned') }}

),

charges as (

    select * from {{ ref('int_charges') }}

),

allocations as (

    select * from {{ ref('int_allocations_classified') }}

),

resources as (

    select * from {{ ref('stg_devices__resources') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

pod_hours as (

    select
        parameters.billing_period,
        allocations.cluster_id,
        {{ instant('pieces.hour_second') }} as hour_started_at,
        allocations.namespace as tenant,
        charges.belongs_to,
        allocations.namespace,
        allocations.pod_uid,
        allocations.pod_name,
        allocations.workload_kind,
        allocations.workload_name,
        allocations.node_name,
        coalesce(resources.requested_name, allocations.resource) as resource,
        allocations.device_count,
        allocations.gpu_class,
        allocations.mig_profile,
        allocations.device_kind,
        {{ instant('pieces.started_second') }} as segment_started_at,
        {{ instant('pieces.ended_second') }} as segment_ended_at,
        pieces.allocation_state as state,
        pieces.method,
        pieces.method_reason,
        pieces.treatment,
        cast(
            case when pieces.allocation_state = 'running' then pieces.counted_seconds else 0 end
            as bigint
        ) as running_seconds,
        cast(
            case when pieces.allocation_state = 'held' then pieces.counted_seconds else 0 end
            as bigint
        ) as held_seconds,
        cast(pieces.billable_seconds as bigint) as billable_seconds,
        cast(
            case
                when pieces.is_in_lifecycle then pieces.ended_second - pieces.started_second else 0
            end
            as bigint
        ) as lifecycle_seconds,
        cast(
            case when pieces.is_sampled then pieces.ended_second - pieces.started_second else 0 end
            as bigint
        ) as sampled_seconds,
        cast(pieces.uncertainty_seconds as bigint) as uncertainty_seconds,
        cast(allocations.compute_share_numerator as bigint) as compute_share_numerator,
        cast(allocations.compute_share_denominator as bigint) as compute_share_denominator,
        cast(allocations.memory_share_numerator as bigint) as memory_share_numerator,
        cast(allocations.memory_share_denominator as bigint) as memory_share_denominator,
        cast(charges.weight_numerator as bigint) as weight_numerator,
        cast(charges.weight_denominator as bigint) as weight_denominator,
        charges.weight_policy,
        charges.rate_id,
        charges.currency,
        pieces.cost_nanos,
        pieces.is_outage
    from pieces
    inner join charges
        on pieces.charge_number = charges.charge_number
    inner join allocations
        on pieces.allocation_number = allocations.allocation_number
    left join resources
        on allocations.resource = resources.resource
    cross join parameters

)

select * from pod_hours
