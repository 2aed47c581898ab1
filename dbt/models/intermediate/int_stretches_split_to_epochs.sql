{{ config(materialized='ephemeral') }}

with

reconciled as (

    select * from {{ ref('int_allocations_reconciled') }}

),

segments as (

    select * from {{ ref('int_segments') }}

),

-- A stretch stays whole while no decision changes; disputes are signed by the hour.
cuts as (

    select
        false as is_for_disputes,
        epoch_number,
        min(started_second) as started_second,
        max(ended_second) as ended_second
    from segments
    group by epoch_number
    union all
    select
        true as is_for_disputes,
        epoch_number,
        started_second,
        ended_second
    from segments

),

split as (

    select
        reconciled.pod_number,
        reconciled.allocation_state,
        reconciled.method,
        reconciled.method_reason,
        cuts.epoch_number,
        greatest(reconciled.started_second, cuts.started_second) as started_second,
        least(reconciled.ended_second, cuts.ended_second) as ended_second,
        -- The doubt about an end belongs to the piece that has that end.
        case
            when reconciled.started_second >= cuts.started_second
                then reconciled.uncertainty_before_seconds
            else 0
        end as uncertainty_before_seconds,
        case
            when reconciled.ended_second <= cuts.ended_second
                then reconciled.uncertainty_after_seconds
            else 0
        end as uncertainty_after_seconds,
        reconciled.lifecycle_seconds > 0 as is_in_lifecycle,
        reconciled.sampled_seconds > 0 as is_sampled
    from reconciled
    inner join cuts
        on
            (reconciled.method = 'disputed') = cuts.is_for_disputes
            and reconciled.started_second < cuts.ended_second
            and cuts.started_second
            < greatest(reconciled.ended_second, reconciled.started_second + 1)

)

select * from split
