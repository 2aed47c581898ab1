with

reconciled as (

    select * from {{ ref('int_allocations_reconciled') }}

),

segments as (

    select * from {{ ref('int_segments') }}

),

hours as (

    select
        *,
        {{ each_hour('started_second', 'greatest(ended_second, started_second + 1)') }}
            as hour_second
    from reconciled

),

split as (

    select
        hours.pod_number,
        hours.allocation_state,
        hours.method,
        hours.method_reason,
        segments.segment_number,
        segments.epoch_number,
        hours.hour_second,
        greatest(hours.started_second, segments.started_second) as started_second,
        least(hours.ended_second, segments.ended_second) as ended_second,
        -- The doubt about an end belongs to the piece that has that end.
        case
            when hours.started_second >= segments.started_second
                then hours.uncertainty_before_seconds
            else 0
        end
        + case
            when hours.ended_second <= segments.ended_second
                then hours.uncertainty_after_seconds
            else 0
        end as uncertainty_seconds,
        hours.lifecycle_seconds > 0 as is_in_lifecycle,
        hours.sampled_seconds > 0 as is_sampled
    from hours
    inner join segments
        on
            hours.hour_second = segments.hour_second
            and hours.started_second < segments.ended_second
            and segments.started_second
            < greatest(hours.ended_second, hours.started_second + 1)

)

select * from split
