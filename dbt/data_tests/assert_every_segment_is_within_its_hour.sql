-- Invariant 7: parts are half-open, lie in their hour, and count no more seconds than they last.
select *
from {{ ref('fct_pod_hours') }}
where
    segment_started_at < hour_started_at
    or segment_ended_at > hour_started_at + interval 1 hour
    or segment_ended_at < segment_started_at
    or running_seconds + held_seconds
    > {{ epoch_seconds('segment_ended_at') }} - {{ epoch_seconds('segment_started_at') }}
