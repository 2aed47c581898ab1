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

-- Evidence that contradicts itself about a pod settles nothing of it until it is accepted.
ruled as (

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

reconciled as (

    select
        ruled.*,
        rules.method,
        rules.method_reason,
        rules.billed
    from ruled
    inner join rules
        on ruled.segment_kind = rules.segment_kind

),

-- A segment stays whole while no decision changes; disputes are accepted by the hour.
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

split as (

    select
        reconciled.cluster_id,
        reconciled.pod_uid,
        reconciled.segment_kind,
        reconciled.allocation_state,
        reconciled.method,
        reconciled.method_reason,
        reconciled.billed,
        cuts.decision_set_number,
        greatest(reconciled.started_second, cuts.started_second) as started_second,
        least(reconciled.ended_second, cuts.ended_second) as ended_second,
        -- The uncertainty of an end belongs to the part that has that end.
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
        reconciled.in_lifecycle
        and reconciled.started_second < reconciled.ended_second as is_in_lifecycle,
        reconciled.in_samples
        and reconciled.started_second < reconciled.ended_second as is_sampled
    from reconciled
    inner join cuts
        on
            (reconciled.billed = 'as_accepted') = cuts.is_for_disputes
            and reconciled.started_second < cuts.ended_second
            and cuts.started_second
            < greatest(reconciled.ended_second, reconciled.started_second + 1)

),

-- A gap that was accepted for the pod precedes one for its cluster.
accepted as (

    select
        split.cluster_id,
        split.pod_uid,
        split.started_second,
        split.ended_second,
        max_by(
            accepted_gaps.treatment,
            (case when accepted_gaps.pod_uid = '' then '0' else '1' end) || accepted_gaps.treatment
        ) as treatment
    from split
    inner join accepted_gaps
        on
            split.cluster_id = accepted_gaps.cluster_id
            and accepted_gaps.pod_uid in ('', split.pod_uid)
            and accepted_gaps.started_second <= split.started_second
            and split.ended_second <= accepted_gaps.ended_second
    where split.billed = 'as_accepted'
    group by split.cluster_id, split.pod_uid, split.started_second, split.ended_second

)

select
    split.cluster_id,
    split.pod_uid,
    split.segment_kind,
    split.allocation_state,
    split.method,
    split.method_reason,
    split.decision_set_number,
    split.started_second,
    split.ended_second,
    split.uncertainty_before_seconds,
    split.uncertainty_after_seconds,
    split.is_in_lifecycle,
    split.is_sampled,
    coalesce(accepted.treatment, '') as treatment,
    case
        when split.billed = 'nothing' then false
        when split.billed <> 'as_accepted' then true
        when accepted.treatment = 'bill_samples' then split.is_sampled
        else split.is_in_lifecycle
    end as is_counted
from split
left join accepted
    on
        split.billed = 'as_accepted'
        and split.cluster_id = accepted.cluster_id
        and split.pod_uid = accepted.pod_uid
        and split.started_second = accepted.started_second
        and split.ended_second = accepted.ended_second
