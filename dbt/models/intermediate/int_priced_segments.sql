with

segments as (

    select * from {{ ref('int_allocations_reconciled') }}

),

allocations as (

    select * from {{ ref('int_allocations') }}

),

prices as (

    select * from {{ ref('int_allocation_prices') }}

),

-- A claimed device is cut wherever the number of pods that hold it changes. The uncertainty of the
-- last pod's end has no length and lies at the end of the last interval.
holders as (

    select
        allocation_number,
        cluster_id,
        pod_uid,
        cast(1 as bigint) as holder_count,
        0 as started_second,
        {{ end_of_time() }} as ended_second
    from allocations
    where claim_uid = ''
    union all
    select
        allocations.allocation_number,
        allocations.cluster_id,
        allocations.pod_uid,
        shares.holder_count,
        shares.started_second,
        case when shares.is_held_after then shares.ended_second else shares.ended_second + 1 end
            as ended_second
    from allocations
    inner join {{ ref('int_claim_shares') }} as shares
        on
            allocations.cluster_id = shares.cluster_id
            and allocations.claim_uid = shares.claim_uid
            and allocations.resource_key = shares.resource_key
    where allocations.claim_uid <> ''

),

-- A pod's part of a shared device weighs as much less as there are pods that hold it.
charges as (

    select
        prices.allocation_number,
        prices.decision_set_number,
        holder_counts.holder_count,
        allocations.device_count,
        allocations.cluster_id,
        allocations.namespace,
        allocations.gpu_class,
        allocations.mig_profile,
        prices.belongs_to,
        prices.billable_state,
        prices.is_outage,
        prices.weight_policy,
        prices.weight_numerator,
        prices.weight_denominator * holder_counts.holder_count as weight_denominator,
        prices.rate_id,
        prices.currency,
        prices.rate_nanos_per_hour,
        prices.charge_started_second,
        prices.charge_ended_second
    from prices
    inner join allocations
        on prices.allocation_number = allocations.allocation_number
    inner join (
        select distinct
            allocation_number,
            holder_count
        from holders
    ) as holder_counts
        on prices.allocation_number = holder_counts.allocation_number

),

numbered as (

    select
        *,
        dense_rank() over (
            order by
                namespace,
                belongs_to,
                cluster_id,
                gpu_class,
                mig_profile,
                weight_numerator,
                weight_denominator,
                weight_policy,
                rate_id,
                charge_started_second
        ) as charge_number
    from charges

),

held as (

    select
        segments.*,
        holders.allocation_number,
        holders.holder_count,
        holders.started_second as holders_since_second,
        holders.ended_second as holders_until_second
    from segments
    inner join holders
        on
            segments.cluster_id = holders.cluster_id
            and segments.pod_uid = holders.pod_uid
            and segments.started_second < holders.ended_second
            and holders.started_second
            < greatest(segments.ended_second, segments.started_second + 1)

),

parts as (

    select
        numbered.*,
        greatest(held.started_second, held.holders_since_second) as started_second,
        least(held.ended_second, held.holders_until_second) as ended_second,
        held.allocation_state,
        held.method,
        held.method_reason,
        held.treatment,
        case
            when held.holders_since_second <= held.started_second
                then held.uncertainty_before_seconds
            else 0
        end as uncertainty_before_seconds,
        case
            when held.ended_second <= held.holders_until_second
                then held.uncertainty_after_seconds
            else 0
        end as uncertainty_after_seconds,
        held.is_in_lifecycle,
        held.is_sampled,
        held.is_counted,
        held.is_counted
        and held.treatment not in ('bill_nothing', 'waive')
        and (held.allocation_state = 'running' or numbered.billable_state = 'held') as is_billable
    from held
    inner join numbered
        on
            held.allocation_number = numbered.allocation_number
            and held.holder_count = numbered.holder_count
            and held.decision_set_number = numbered.decision_set_number

)

select
    allocation_number,
    device_count,
    holder_count,
    charge_number,
    cluster_id,
    namespace,
    belongs_to,
    gpu_class,
    mig_profile,
    weight_policy,
    weight_numerator,
    weight_denominator,
    rate_id,
    currency,
    rate_nanos_per_hour,
    charge_started_second,
    charge_ended_second,
    is_outage,
    started_second,
    ended_second,
    allocation_state,
    method,
    method_reason,
    treatment,
    uncertainty_before_seconds,
    uncertainty_after_seconds,
    is_in_lifecycle,
    is_sampled,
    is_counted,
    is_billable,
    case when is_counted then ended_second - started_second else 0 end as counted_seconds,
    case when is_billable then ended_second - started_second else 0 end as billable_seconds
from parts
