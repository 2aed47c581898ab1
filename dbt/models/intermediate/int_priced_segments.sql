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

-- Segments of a claimed device are cut where the number of its holders changes. A segment without a
-- length, which has the uncertainty of an end, belongs to the last interval.
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

-- The weight of a shared device is divided by the number of pods that hold it.
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

numbered_charges as (

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

holder_segments as (

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

charge_parts as (

    select
        numbered_charges.*,
        greatest(holder_segments.started_second, holder_segments.holders_since_second)
            as started_second,
        least(holder_segments.ended_second, holder_segments.holders_until_second) as ended_second,
        holder_segments.allocation_state,
        holder_segments.method,
        holder_segments.method_reason,
        holder_segments.treatment,
        case
            when holder_segments.holders_since_second <= holder_segments.started_second
                then holder_segments.uncertainty_before_seconds
            else 0
        end as uncertainty_before_seconds,
        case
            when holder_segments.ended_second <= holder_segments.holders_until_second
                then holder_segments.uncertainty_after_seconds
            else 0
        end as uncertainty_after_seconds,
        holder_segments.is_in_lifecycle,
        holder_segments.is_sampled,
        holder_segments.is_counted,
        holder_segments.is_counted
        and holder_segments.treatment not in ('bill_nothing', 'waive')
        and (
            holder_segments.allocation_state = 'running' or numbered_charges.billable_state = 'held'
        ) as is_billable
    from holder_segments
    inner join numbered_charges
        on
            holder_segments.allocation_number = numbered_charges.allocation_number
            and holder_segments.holder_count = numbered_charges.holder_count
            and holder_segments.decision_set_number = numbered_charges.decision_set_number

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
from charge_parts
