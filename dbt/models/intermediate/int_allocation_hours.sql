with

parts as (

    select
        *,
        {{ each_hour('started_second', 'greatest(ended_second, started_second + 1)') }}
            as hour_second
    from {{ ref('int_priced_segments') }}

),

-- The uncertainty of an end belongs to the hour of that end.
hours as (

    select
        parts.allocation_number,
        parts.device_count,
        parts.holder_count,
        parts.charge_number,
        parts.is_outage,
        parts.hour_second,
        greatest(parts.started_second, parts.hour_second) as started_second,
        least(parts.ended_second, parts.hour_second + 3600) as ended_second,
        parts.allocation_state,
        parts.method,
        parts.method_reason,
        parts.treatment,
        case
            when parts.hour_second <= parts.started_second then parts.uncertainty_before_seconds
            else 0
        end
        + case
            when parts.ended_second <= parts.hour_second + 3600
                then parts.uncertainty_after_seconds
            else 0
        end as uncertainty_seconds,
        parts.is_in_lifecycle,
        parts.is_sampled,
        parts.is_counted,
        parts.is_billable
    from parts

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
