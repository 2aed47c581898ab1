with

evidence as (

    select * from {{ ref('int_pod_evidence') }}

),

lifecycles as (

    select * from {{ ref('int_pods_from_journal') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

watch_intervals as (

    select * from {{ ref('int_watch_intervals') }}

),

contradicted as (

    select distinct
        cluster_id,
        pod_uid
    from {{ ref('int_pod_contradictions') }}

),

sampled as (

    select
        *,
        lead(first_sampled_second) over (
            partition by cluster_id, pod_uid, window_number order by first_sampled_second
        ) as next_sampled_second
    from {{ ref('int_allocations_from_samples') }}

),

-- While samples show the pod, both sources agree; an end counts to it that is missing for no
-- longer than the sources may differ.
agreeing as (

    select
        sampled.cluster_id,
        sampled.pod_uid,
        'agrees' as segment_kind,
        case
            when
                sampled.first_sampled_second = evidence.first_sampled_second
                and evidence.first_inside_second - evidence.started_second
                <= evidence.agreement_seconds
                then evidence.started_second
            else greatest(sampled.first_sampled_second, evidence.started_second)
        end as started_second,
        case
            when sampled.next_sampled_second is not null
                then
                    least(
                        sampled.last_sampled_second + evidence.sample_interval_seconds,
                        evidence.known_until_second
                    )
            when
                evidence.known_until_second - evidence.last_inside_second
                <= evidence.agreement_seconds
                then evidence.known_until_second
            else least(sampled.last_sampled_second, evidence.known_until_second)
        end as ended_second
    from sampled
    inner join evidence
        on
            sampled.cluster_id = evidence.cluster_id
            and sampled.pod_uid = evidence.pod_uid
            and sampled.window_number = evidence.window_number
    where evidence.started_second is not null

),

-- Two samples of one UID show that it ran between them.
between_samples as (

    select
        sampled.cluster_id,
        sampled.pod_uid,
        'sample_gap' as segment_kind,
        greatest(
            sampled.last_sampled_second + evidence.sample_interval_seconds,
            evidence.started_second
        ) as started_second,
        least(sampled.next_sampled_second, evidence.known_until_second) as ended_second
    from sampled
    inner join evidence
        on
            sampled.cluster_id = evidence.cluster_id
            and sampled.pod_uid = evidence.pod_uid
            and sampled.window_number = evidence.window_number
    where evidence.started_second is not null and sampled.next_sampled_second is not null

),

in_lifecycle as (

    select * from agreeing
    union all
    select * from between_samples
    union all
    select
        cluster_id,
        pod_uid,
        segment_kind,
        started_second,
        ended_second
    from {{ ref('int_unsampled_segments') }}

),

-- The journal lost the end of the pod: the last sample shows it, if there is one.
lost_ends as (

    select
        cluster_id,
        pod_uid,
        known_until_second as started_second,
        greatest(
            least(coalesce(sampled_until_second, known_until_second), ended_by_second),
            known_until_second
        ) as ended_second,
        least(
            ended_by_second,
            coalesce(sampled_until_second + uncertainty_after_seconds, ended_by_second)
        ) as ended_at_latest_second,
        -- The next scrape was in time and did not show the pod.
        coalesce(
            uncertainty_after_seconds <= sample_interval_seconds + sample_delay_seconds + 1, false
        ) as is_end_sampled
    from evidence
    where known_until_second < ended_by_second

),

-- A container reports its start also where the first sample of it came later; the journal may know
-- a restart alone. After the lost end of a pod the journal would have seen it again by then.
outside as (

    select
        cluster_id,
        pod_uid,
        'outside_lifecycle' as segment_kind,
        sampled_from_second as started_second,
        least(started_second, last_sampled_second) as ended_second,
        uncertainty_before_seconds,
        cast(0 as bigint) as uncertainty_after_seconds
    from evidence
    where first_sampled_second < started_second - {{ clock_tolerance_seconds() }}
    union all
    select
        cluster_id,
        pod_uid,
        'outside_lifecycle' as segment_kind,
        greatest(ended_by_second, first_sampled_second) as started_second,
        last_sampled_second as ended_second,
        cast(0 as bigint) as uncertainty_before_seconds,
        cast(0 as bigint) as uncertainty_after_seconds
    from evidence
    where last_sampled_second > ended_by_second + {{ clock_tolerance_seconds() }}

),

not_in_lifecycle as (

    select *
    from outside
    where started_second < ended_second
    union all
    select
        cluster_id,
        pod_uid,
        'unknown_uid' as segment_kind,
        sampled_from_second as started_second,
        sampled_until_second as ended_second,
        uncertainty_before_seconds,
        uncertainty_after_seconds
    from evidence
    where started_second is null and expects_journal

),

-- The journal contradicts such samples while it was watched; otherwise it has a gap. Samples before
-- the start in the journal leave no doubt about the start, but about which source is right.
cut_at_watches as (

    select
        not_in_lifecycle.cluster_id,
        not_in_lifecycle.pod_uid,
        case
            when watch_intervals.is_watched then not_in_lifecycle.segment_kind
            else 'journal_gap'
        end as segment_kind,
        greatest(not_in_lifecycle.started_second, watch_intervals.started_second)
            as started_second,
        least(not_in_lifecycle.ended_second, watch_intervals.ended_second) as ended_second,
        case
            when
                not_in_lifecycle.started_second >= watch_intervals.started_second
                and not (
                    watch_intervals.is_watched
                    and not_in_lifecycle.segment_kind = 'outside_lifecycle'
                )
                then not_in_lifecycle.uncertainty_before_seconds
            else 0
        end as uncertainty_before_seconds,
        case
            when not_in_lifecycle.ended_second <= watch_intervals.ended_second
                then not_in_lifecycle.uncertainty_after_seconds
            else 0
        end as uncertainty_after_seconds
    from not_in_lifecycle
    inner join watch_intervals
        on
            not_in_lifecycle.cluster_id = watch_intervals.cluster_id
            and not_in_lifecycle.started_second < watch_intervals.ended_second
            and watch_intervals.started_second
            < greatest(not_in_lifecycle.ended_second, not_in_lifecycle.started_second + 1)

),

running as (

    select
        cluster_id,
        pod_uid,
        segment_kind,
        started_second,
        ended_second,
        cast(0 as bigint) as uncertainty_before_seconds,
        cast(0 as bigint) as uncertainty_after_seconds
    from in_lifecycle
    where started_second < ended_second
    union all
    select
        cluster_id,
        pod_uid,
        case
            when is_end_sampled or started_second < ended_second then 'end_not_recorded'
            else 'end_unknown'
        end as segment_kind,
        started_second,
        ended_second,
        cast(0 as bigint) as uncertainty_before_seconds,
        greatest(ended_at_latest_second, ended_second) - ended_second
            as uncertainty_after_seconds
    from lost_ends
    union all
    select * from cut_at_watches
    union all
    select
        cluster_id,
        pod_uid,
        'journal_not_expected' as segment_kind,
        sampled_from_second as started_second,
        sampled_until_second as ended_second,
        uncertainty_before_seconds,
        uncertainty_after_seconds
    from evidence
    where started_second is null and not expects_journal

),

first_running as (

    select
        cluster_id,
        pod_uid,
        min(started_second) as started_second
    from running
    where segment_kind <> 'end_unknown'
    group by cluster_id, pod_uid

),

-- Time that either source shows as running is not held.
held as (

    select
        lifecycles.cluster_id,
        lifecycles.pod_uid,
        greatest(lifecycles.bound_second, windows.window_started_second) as started_second,
        least(
            coalesce(lifecycles.started_second, lifecycles.known_until_second),
            coalesce(first_running.started_second, {{ end_of_time() }}),
            windows.window_ended_second
        ) as ended_second
    from lifecycles
    left join first_running
        on
            lifecycles.cluster_id = first_running.cluster_id
            and lifecycles.pod_uid = first_running.pod_uid
    inner join windows
        on
            lifecycles.cluster_id = windows.cluster_id
            and windows.expects_journal
    where lifecycles.bound_second is not null

),

segments as (

    select * from running
    union all
    select
        cluster_id,
        pod_uid,
        'before_start' as segment_kind,
        started_second,
        ended_second,
        cast(0 as bigint) as uncertainty_before_seconds,
        cast(0 as bigint) as uncertainty_after_seconds
    from held
    where started_second < ended_second

)

select
    segments.cluster_id,
    segments.pod_uid,
    segments.segment_kind,
    contradicted.pod_uid is not null as is_contradicted,
    segments.started_second,
    segments.ended_second,
    segments.uncertainty_before_seconds,
    segments.uncertainty_after_seconds
from segments
left join contradicted
    on
        segments.cluster_id = contradicted.cluster_id
        and segments.pod_uid = contradicted.pod_uid
