with

charges as (

    select * from {{ ref('int_charges') }}

),

allocations as (

    select * from {{ ref('int_allocations') }}

),

resources as (

    select * from {{ ref('stg_devices__resources') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- A charge is apportioned by the largest remainder, as in `domain.money.apportion`, so that its
-- hours add up to it. All hours of a charge with the same device-seconds have the same share.
lengths as (

    select
        charge_number,
        billable_seconds * device_count as device_seconds,
        count(*) as hour_count
    from {{ ref('int_allocation_hours') }}
    group by charge_number, billable_seconds * device_count

),

shares as (

    select
        lengths.charge_number,
        lengths.device_seconds,
        lengths.hour_count,
        charges.cost_nanos,
        {{ whole_quotient(
            exact('charges.cost_nanos') ~ ' * ' ~ exact('lengths.device_seconds'),
            exact('greatest(charges.device_seconds, 1)')
        ) }} as whole_nanos,
        cast(
            ({{ exact('charges.cost_nanos') }} * {{ exact('lengths.device_seconds') }})
            % {{ exact('greatest(charges.device_seconds, 1)') }}
            as bigint
        ) as remainder
    from lengths
    inner join charges
        on lengths.charge_number = charges.charge_number

),

-- The remaining nanos are given, one each, to the hours with the largest remainders.
remainders as (

    select
        charge_number,
        remainder,
        sum(hour_count) as equal_count,
        sum(sum(hour_count)) over (
            partition by charge_number
            order by remainder desc
            rows between unbounded preceding and current row
        ) - sum(hour_count) as larger_count,
        max(max(cost_nanos)) over (partition by charge_number)
        - sum(sum(whole_nanos * hour_count)) over (partition by charge_number) as left_nanos
    from shares
    group by charge_number, remainder

),

raised_shares as (

    select
        shares.charge_number,
        shares.device_seconds,
        shares.whole_nanos,
        shares.remainder,
        remainders.equal_count,
        greatest(
            least(remainders.left_nanos - remainders.larger_count, remainders.equal_count), 0
        ) as raised_count
    from shares
    inner join remainders
        on
            shares.charge_number = remainders.charge_number
            and shares.remainder = remainders.remainder

),

-- Hours with equal remainders all get a nano, or none of them does. If the nanos are fewer than the
-- hours, the order of the hours decides.
ranked_hours as (

    select
        hours.*,
        raised_shares.whole_nanos,
        raised_shares.raised_count,
        1 as remainder_rank
    from {{ ref('int_allocation_hours') }} as hours
    inner join raised_shares
        on
            hours.charge_number = raised_shares.charge_number
            and hours.billable_seconds * hours.device_count = raised_shares.device_seconds
    where raised_shares.raised_count in (0, raised_shares.equal_count)
    union all
    select
        hours.*,
        raised_shares.whole_nanos,
        raised_shares.raised_count,
        row_number() over (
            partition by hours.charge_number, raised_shares.remainder
            order by
                hours.allocation_number,
                hours.holder_count,
                hours.started_second,
                hours.ended_second,
                hours.allocation_state,
                hours.method_reason
        ) as remainder_rank
    from {{ ref('int_allocation_hours') }} as hours
    inner join raised_shares
        on
            hours.charge_number = raised_shares.charge_number
            and hours.billable_seconds * hours.device_count = raised_shares.device_seconds
    where raised_shares.raised_count not in (0, raised_shares.equal_count)

),

pod_hours as (

    select
        parameters.billing_period,
        allocations.cluster_id,
        {{ instant('ranked_hours.hour_second') }} as hour_started_at,
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
        {{ instant('ranked_hours.started_second') }} as segment_started_at,
        {{ instant('ranked_hours.ended_second') }} as segment_ended_at,
        ranked_hours.allocation_state as state,
        ranked_hours.method,
        ranked_hours.method_reason,
        ranked_hours.treatment,
        cast(
            case
                when
                    ranked_hours.allocation_state = 'running'
                    then ranked_hours.counted_seconds
                else 0
            end
            as bigint
        ) as running_seconds,
        cast(
            case
                when ranked_hours.allocation_state = 'held' then ranked_hours.counted_seconds else 0
            end
            as bigint
        ) as held_seconds,
        cast(ranked_hours.billable_seconds as bigint) as billable_seconds,
        cast(
            case
                when
                    ranked_hours.is_in_lifecycle
                    then ranked_hours.ended_second - ranked_hours.started_second
                else 0
            end
            as bigint
        ) as lifecycle_seconds,
        cast(
            case
                when
                    ranked_hours.is_sampled
                    then ranked_hours.ended_second - ranked_hours.started_second
                else 0
            end
            as bigint
        ) as sampled_seconds,
        cast(ranked_hours.uncertainty_seconds as bigint) as uncertainty_seconds,
        cast(allocations.compute_share_numerator as bigint) as compute_share_numerator,
        cast(allocations.compute_share_denominator * ranked_hours.holder_count as bigint)
            as compute_share_denominator,
        cast(allocations.memory_share_numerator as bigint) as memory_share_numerator,
        cast(allocations.memory_share_denominator * ranked_hours.holder_count as bigint)
            as memory_share_denominator,
        cast(charges.weight_numerator as bigint) as weight_numerator,
        cast(charges.weight_denominator as bigint) as weight_denominator,
        charges.weight_policy,
        charges.rate_id,
        charges.currency,
        cast(
            ranked_hours.whole_nanos
            + case when ranked_hours.remainder_rank <= ranked_hours.raised_count then 1 else 0 end
            as decimal(38, 0)
        ) as cost_nanos,
        ranked_hours.is_outage
    from ranked_hours
    inner join charges
        on ranked_hours.charge_number = charges.charge_number
    inner join allocations
        on ranked_hours.allocation_number = allocations.allocation_number
    left join resources
        on allocations.resource = resources.resource
    cross join parameters

)

select * from pod_hours
