with

segments as (

    select * from {{ ref('int_allocation_segments') }}

),

rules as (

    select * from {{ ref('reconciliation_rules') }}

),

hour_segments as (

    select * from {{ ref('int_segments') }}

),

accepted_gaps as (

    select * from {{ ref('stg_decisions__accepted_gaps') }}

),

-- If the evidence about a pod contradicts itself, all of its segments are disputed until a decision
-- accepts them.
ruled_segments as (

    select
        segments.cluster_id,
        segments.pod_uid,
        case
            when segments.is_contradicted and rules.method <> 'missing' then 'contradicted'
            else rules.segment_kind
        end as segment_kind,
        rules.allocation_state,
        rules.in_lifecycle = 'true' as in_lifecycle,
        rules.in_samples = 'true' as in_samples,
        segments.started_second,
        segments.ended_second,
        segments.uncertainty_before_seconds,
        segments.uncertainty_after_seconds
    from segments
    inner join rules
        on segments.segment_kind = rules.segment_kind

),

reconciled_segments as (

    select
        ruled_segments.*,
        rules.method,
        rules.method_reason,
        rules.billed
    from ruled_segments
    inner join rules
        on ruled_segments.segment_kind = rules.segment_kind

),

-- A segment is cut where a decision changes. A disputed one is also cut at each hour, because
-- disputes are accepted by the hour.
cuts as (

    select
        false as is_for_disputes,
        decision_set_number,
        min(started_second) as started_second,
        max(ended_second) as ended_second
    from hour_segments
    group by decision_set_number
    union all
    select
        true as is_for_disputes,
        decision_set_number,
        started_second,
        ended_second
    from hour_segments

),

segment_parts as (

    select
        reconciled_segments.cluster_id,
        reconciled_segments.pod_uid,
        reconciled_segments.segment_kind,
        reconciled_segments.allocation_state,
        reconciled_segments.method,
        reconciled_segments.method_reason,
        reconciled_segments.billed,
        cuts.decision_set_number,
        greatest(reconciled_segments.started_second, cuts.started_second) as started_second,
        least(reconciled_segments.ended_second, cuts.ended_second) as ended_second,
        -- The uncertainty of a start or end belongs to the part with this start or end.
        case
            when reconciled_segments.started_second >= cuts.started_second
                then reconciled_segments.uncertainty_before_seconds
            else 0
        end as uncertainty_before_seconds,
        case
            when reconciled_segments.ended_second <= cuts.ended_second
                then reconciled_segments.uncertainty_after_seconds
            else 0
        end as uncertainty_after_seconds,
        reconciled_segments.in_lifecycle
        and reconciled_segments.started_second
        < reconciled_segments.ended_second as is_in_lifecycle,
        reconciled_segments.in_samples
        and reconciled_segments.started_second < reconciled_segments.ended_second as is_sampled
    from reconciled_segments
    inner join cuts
        on
            (reconciled_segments.billed = 'as_accepted') = cuts.is_for_disputes
            and reconciled_segments.started_second < cuts.ended_second
            and cuts.started_second
            < greatest(reconciled_segments.ended_second, reconciled_segments.started_second + 1)

),

-- A gap that is accepted for the pod has precedence over one that is accepted for its cluster.
accepted_treatments as (

    select
        segment_parts.cluster_id,
        segment_parts.pod_uid,
        segment_parts.started_second,
        segment_parts.ended_second,
        max_by(
            accepted_gaps.treatment,
            (case when accepted_gaps.pod_uid = '' then '0' else '1' end) || accepted_gaps.treatment
        ) as treatment
    from segment_parts
    inner join accepted_gaps
        on
            segment_parts.cluster_id = accepted_gaps.cluster_id
            and accepted_gaps.pod_uid in ('', segment_parts.pod_uid)
            and accepted_gaps.started_second <= segment_parts.started_second
            and segment_parts.ended_second <= accepted_gaps.ended_second
    where segment_parts.billed = 'as_accepted'
    group by
        segment_parts.cluster_id,
        segment_parts.pod_uid,
        segment_parts.started_second,
        segment_parts.ended_second

)

select
    segment_parts.cluster_id,
    segment_parts.pod_uid,
    segment_parts.segment_kind,
    segment_parts.allocation_state,
    segment_parts.method,
    segment_parts.method_reason,
    segment_parts.decision_set_number,
    segment_parts.started_second,
    segment_parts.ended_second,
    segment_parts.uncertainty_before_seconds,
    segment_parts.uncertainty_after_seconds,
    segment_parts.is_in_lifecycle,
    segment_parts.is_sampled,
    coalesce(accepted_treatments.treatment, '') as treatment,
    case
        when segment_parts.billed = 'nothing' then false
        when segment_parts.billed <> 'as_accepted' then true
        when accepted_treatments.treatment = 'bill_samples' then segment_parts.is_sampled
        else segment_parts.is_in_lifecycle
    end as is_counted
from segment_parts
left join accepted_treatments
    on
        segment_parts.billed = 'as_accepted'
        and segment_parts.cluster_id = accepted_treatments.cluster_id
        and segment_parts.pod_uid = accepted_treatments.pod_uid
        and segment_parts.started_second = accepted_treatments.started_second
        and segment_parts.ended_second = accepted_treatments.ended_second
