with

stretches as (

    select * from {{ ref('int_stretches_treated') }}

),

allocations as (

    select
        allocation_number,
        pod_number,
        device_count,
        claim_uid,
        resource_key,
        holder_count
    from {{ ref('int_allocations') }}

),

shares as (

    select * from {{ ref('int_claim_shares') }}

),

prices as (

    select
        allocation_number,
        epoch_number,
        charge_number,
        billable_state,
        is_outage
    from {{ ref('int_allocations_priced') }}

),

-- A claimed device is cut wherever the number of pods that hold it changes.
spans as (

    select
        allocation_number,
        pod_number,
        device_count,
        0 as started_second,
        {{ end_of_time() }} as ended_second
    from allocations
    where claim_uid = ''
    union all
    select
        allocations.allocation_number,
        allocations.pod_number,
        allocations.device_count,
        shares.started_second,
        shares.ended_second
    from allocations
    inner join shares
        on
            allocations.pod_number = shares.pod_number
            and allocations.claim_uid = shares.claim_uid
            and allocations.resource_key = shares.resource_key
            and allocations.holder_count = shares.holder_count

),

held as (

    select
        stretches.*,
        spans.allocation_number,
        spans.device_count,
        spans.started_second as span_started_second,
        spans.ended_second as span_ended_second
    from stretches
    inner join spans
        on
            stretches.pod_number = spans.pod_number
            and stretches.started_second < spans.ended_second
            and spans.started_second
            < greatest(stretches.ended_second, stretches.started_second + 1)

),

pieces as (

    select
        held.allocation_number,
        held.device_count,
        prices.charge_number,
        prices.is_outage,
        greatest(held.started_second, held.span_started_second) as started_second,
        least(held.ended_second, held.span_ended_second) as ended_second,
        held.allocation_state,
        held.method,
        held.method_reason,
        held.treatment,
        case
            when held.span_started_second <= held.started_second
                then held.uncertainty_before_seconds
            else 0
        end as uncertainty_before_seconds,
        case
            when held.ended_second <= held.span_ended_second then held.uncertainty_after_seconds
            else 0
        end as uncertainty_after_seconds,
        held.is_in_lifecycle,
        held.is_sampled,
        held.is_counted,
        held.is_counted
        and held.treatment not in ('bill_nothing', 'waive')
        and (held.allocation_state = 'running' or prices.billable_state = 'held') as is_billable
    from held
    inner join prices
        on
            held.allocation_number = prices.allocation_number
            and held.epoch_number = prices.epoch_number

)

select
    *,
    case when is_counted then ended_second - started_second else 0 end as counted_seconds,
    case when is_billable then ended_second - started_second else 0 end as billable_seconds
from pieces
