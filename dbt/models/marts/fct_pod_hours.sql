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

-- The nanos that are left go one by one to the hours with the largest remainders.
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

raised as (

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

-- Of hours with one remainder, all get a nano or none does; where only some do, order decides.
ranked as (

    select
        hours.*,
        raised.whole_nanos,
        raised.raised_count,
        1 as remainder_rank
    from {{ ref('int_allocation_hours') }} as hours
    inner join raised
        on
            hours.charge_number = raised.charge_number
            and hours.billable_seconds * hours.device_count = raised.device_seconds
    where raised.raised_count in (0, raised.equal_count)
    union all
    select
        hours.*,
        raised.whole_nanos,
        raised.raised_count,
        row_number() over (
            partition by hours.charge_number, raised.remainder
            order by
                hours.allocation_number,
                hours.holder_count,
                hours.started_second,
                hours.ended_second,
                hours.allocation_state,
                hours.method_reason
        ) as remainder_rank
    from {{ ref('int_allocation_hours') }} as hours
    inner join raised
        on
            hours.charge_number = raised.charge_number
            and hours.billable_seconds * hours.device_count = raised.device_seconds
    where raised.raised_count not in (0, raised.equal_count)

),

pod_hours as (

    select
        parameters.billing_period,
        allocations.cluster_id,
        {{ instant('ranked.hour_second') }} as hour_started_at,
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
        {{ instant('ranked.started_second') }} as segment_started_at,
        {{ instant('ranked.ended_second') }} as segment_ended_at,
        ranked.allocation_state as state,
        ranked.method,
        ranked.method_reason,
        ranked.treatment,
        cast(
            case when ranked.allocation_state = 'running' then ranked.counted_seconds else 0 end
            as bigint
        ) as running_seconds,
        cast(
            case when ranked.allocation_state = 'held' then ranked.counted_seconds else 0 end
            as bigint
        ) as held_seconds,
        cast(ranked.billable_seconds as bigint) as billable_seconds,
        cast(
            case
                when ranked.is_in_lifecycle then ranked.ended_second - ranked.started_second else 0
            end
            as bigint
        ) as lifecycle_seconds,
        cast(
            case when ranked.is_sampled then ranked.ended_second - ranked.started_second else 0 end
            as bigint
        ) as sampled_seconds,
        cast(ranked.uncertainty_seconds as bigint) as uncertainty_seconds,
        cast(allocations.compute_share_numerator as bigint) as compute_share_numerator,
        cast(allocations.compute_share_denominator * ranked.holder_count as bigint)
            as compute_share_denominator,
        cast(allocations.memory_share_numerator as bigint) as memory_share_numerator,
        cast(allocations.memory_share_denominator * ranked.holder_count as bigint)
            as memory_share_denominator,
        cast(charges.weight_numerator as bigint) as weight_numerator,
        cast(charges.weight_denominator as bigint) as weight_denominator,
        charges.weight_policy,
        charges.rate_id,
        charges.currency,
        cast(
            ranked.whole_nanos
            + case when ranked.remainder_rank <= ranked.raised_count then 1 else 0 end
            as decimal(38, 0)
        ) as cost_nanos,
        ranked.is_outage
    from ranked
    inner join charges
        on ranked.charge_number = charges.charge_number
    inner join allocations
        on ranked.allocation_number = allocations.allocation_number
    left join resources
        on allocations.resource = resources.resource
    cross join parameters

)

select * from pod_hours
