with

pieces as (

    select
        *,
        {{ each_hour('started_second', 'greatest(ended_second, started_second + 1)') }}
            as hour_second
    from {{ ref('int_allocation_pieces') }}

),

-- The uncertainty of an end belongs to the hour of that end.
hours as (

    select
        pieces.allocation_number,
        pieces.device_count,
        pieces.holder_count,
        pieces.charge_number,
        pieces.is_outage,
        pieces.hour_second,
        greatest(pieces.started_second, pieces.hour_second) as started_second,
        least(pieces.ended_second, pieces.hour_second + 3600) as ended_second,
        pieces.allocation_state,
        pieces.method,
        pieces.method_reason,
        pieces.treatment,
        case
            when pieces.hour_second <= pieces.started_second then pieces.uncertainty_before_seconds
            else 0
        end
        + case
            when pieces.ended_second <= pieces.hour_second + 3600
                then pieces.uncertainty_after_seconds
            else 0
        end as uncertainty_seconds,
        pieces.is_in_lifecycle,
        pieces.is_sampled,
        pieces.is_counted,
        pieces.is_billable
    from pieces

)

select
    allocation_number,
    device_count,
    holder_count,
    charge_number,
    is_outage,
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
    case when is_counted then ended_second - started_second else 0 end as counted_seconds,
    case when is_billable then ended_second - started_second else 0 end as billable_seconds
from hours
