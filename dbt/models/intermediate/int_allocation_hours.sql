with

segment_hours as (

    select
        *,
        {{ each_hour('started_second', 'greatest(ended_second, started_second + 1)') }}
            as hour_second
    from {{ ref('int_priced_segments') }}

),

-- The uncertainty of a start or end belongs to the hour of this start or end.
hours as (

    select
        segment_hours.allocation_number,
        segment_hours.device_count,
        segment_hours.holder_count,
        segment_hours.charge_number,
        segment_hours.is_outage,
        segment_hours.hour_second,
        greatest(segment_hours.started_second, segment_hours.hour_second) as started_second,
        least(segment_hours.ended_second, segment_hours.hour_second + 3600) as ended_second,
        segment_hours.allocation_state,
        segment_hours.method,
        segment_hours.method_reason,
        segment_hours.treatment,
        case
            when
                segment_hours.hour_second <= segment_hours.started_second
                then segment_hours.uncertainty_before_seconds
            else 0
        end
        + case
            when segment_hours.ended_second <= segment_hours.hour_second + 3600
                then segment_hours.uncertainty_after_seconds
            else 0
        end as uncertainty_seconds,
        segment_hours.is_in_lifecycle,
        segment_hours.is_sampled,
        segment_hours.is_counted,
        segment_hours.is_billable
    from segment_hours

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
