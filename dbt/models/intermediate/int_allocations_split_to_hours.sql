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
        spans.allocation_number,
        spans.device_count,
        stretches.segment_number,
        stretches.epoch_number,
        stretches.hour_second,
        greatest(stretches.started_second, spans.started_second) as started_second,
        least(stretches.ended_second, spans.ended_second) as ended_second,
        stretches.allocation_state,
        stretches.method,
        stretches.method_reason,
        stretches.treatment,
        stretches.is_in_lifecycle,
        stretches.is_sampled,
        stretches.is_counted,
        case
            when stretches.ended_second <= spans.ended_second then stretches.uncertainty_seconds
            else 0
        end as uncertainty_seconds
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
        held.*,
        prices.charge_number,
        prices.is_outage,
        case when held.is_counted then held.ended_second - held.started_second else 0 end
            as counted_seconds,
        case
            when held.treatment in ('bill_nothing', 'waive') or not held.is_counted then 0
            when held.allocation_state = 'running' or prices.billable_state = 'held'
                then held.ended_second - held.started_second
            else 0
        end as billable_seconds
    from held
    inner join prices
        on
            held.allocation_number = prices.allocation_number
            and held.epoch_number = prices.epoch_number

)

select
    allocation_number,
    device_count,
    charge_number,
    is_outage,
    segment_number,
    hour_second,
    started_second,
    ended_second,
    allocation_state,
    method,
    method_reason,
    treatment,
    uncertainty_seconds,
    is_in_lifecycle,
    is_sampled,
    counted_seconds,
    billable_seconds
from pieces
