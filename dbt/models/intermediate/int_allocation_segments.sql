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

contradictory_pods as (

    select distinct
        cluster_id,
        pod_uid
    from {{ ref('int_pod_contradictions') }}

),

sample_intervals as (

    select
        *,
        lead(first_sampled_second) over (
            partition by cluster_id, pod_uid, window_number order by first_sampled_second
        ) as next_sampled_second
    from {{ ref('int_allocations_from_samples') }}

),

-- While samples show the pod, both sources agree. The interval includes a start or end without
-- samples that is no longer than the permitted difference of the sources.
agreements as (

    select
        sample_intervals.cluster_id,
        sample_intervals.pod_uid,
        'agrees' as segment_kind,
        case
            when
                sample_intervals.first_sampled_second = evidence.first_sampled_second
                and evidence.first_inside_second - evidence.started_second
                <= evidence.agreement_seconds
                then evidence.started_second
            else greatest(sample_intervals.first_sampled_second, evidence.started_second)
        end as started_second,
        case
            when sample_intervals.next_sampled_second is not null
                then
                    least(
                        sample_intervals.last_sampled_second + evidence.sample_interval_seconds,
                        evidence.known_until_second
                    )
            when
                evidence.known_until_second - evidence.last_inside_second
                <= evidence.agreement_seconds
                then evidence.known_until_second
            else least(sample_intervals.last_sampled_second, evidence.known_until_second)
        end as ended_second
    from sample_intervals
    inner join evidence
        on
            sample_intervals.cluster_id = evidence.cluster_id
            and sample_intervals.pod_uid = evidence.pod_uid
            and sample_intervals.window_number = evidence.window_number
    where evidence.started_second is not null

),

-- Two samples of one UID prove that the pod ran between them.
sample_gaps as (

    select
        sample_intervals.cluster_id,
        sample_intervals.pod_uid,
        'sample_gap' as segment_kind,
        greatest(
            sample_intervals.last_sampled_second + evidence.sample_interval_seconds,
            evidence.started_second
        ) as started_second,
        least(sample_intervals.next_sampled_second, evidence.known_until_second) as ended_second
    from sample_intervals
    inner join evidence
        on
            sample_intervals.cluster_id = evidence.cluster_id
            and sample_intervals.pod_uid = evidence.pod_uid
            and sample_intervals.window_number = evidence.window_number
    where evidence.started_second is not null and sample_intervals.next_sampled_second is not null

),

lifecycle_segments as (

    select * from agreements
    union all
    select * from sample_gaps
    union all
    select
        cluster_id,
        pod_uid,
        segment_kind,
        started_second,
        ended_second
    from {{ ref('int_unsampled_segments') }}

),

-- The journal does not have the end of the pod. The last sample gives the end, if there is one.
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

-- Samples before the start in the journal, and samples after the end. The journal may have only the
-- start after a restart. If the journal does not have the end of the pod, an unbroken watch after
-- it would have shown the pod again.
segments_outside as (

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

other_segments as (

    select *
    from segments_outside
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

-- While the cluster was watched, the journal contradicts these samples; otherwise the journal has a
-- gap. Samples before the start in the journal do not make the start uncertain: the question is
-- which source is right.
watched_segments as (

    select
        other_segments.cluster_id,
        other_segments.pod_uid,
        case
            when watch_intervals.is_watched then other_segments.segment_kind
            else 'journal_gap'
        end as segment_kind,
        greatest(other_segments.started_second, watch_intervals.started_second)
            as started_second,
        least(other_segments.ended_second, watch_intervals.ended_second) as ended_second,
        case
            when
                other_segments.started_second >= watch_intervals.started_second
                and not (
                    watch_intervals.is_watched
                    and other_segments.segment_kind = 'outside_lifecycle'
                )
                then other_segments.uncertainty_before_seconds
            else 0
        end as uncertainty_before_seconds,
        case
            when other_segments.ended_second <= watch_intervals.ended_second
                then other_segments.uncertainty_after_seconds
            else 0
        end as uncertainty_after_seconds
    from other_segments
    inner join watch_intervals
        on
            other_segments.cluster_id = watch_intervals.cluster_id
            and other_segments.started_second < watch_intervals.ended_second
            and watch_intervals.started_second
            < greatest(other_segments.ended_second, other_segments.started_second + 1)

),

running_segments as (

    select
        lifecycle_segments.cluster_id,
        lifecycle_segments.pod_uid,
        lifecycle_segments.segment_kind,
        lifecycle_segments.started_second,
        lifecycle_segments.ended_second,
        coalesce(evidence.start_uncertainty_seconds, 0) as uncertainty_before_seconds,
        cast(0 as bigint) as uncertainty_after_seconds
    from lifecycle_segments
    left join evidence
        on
            lifecycle_segments.cluster_id = evidence.cluster_id
            and lifecycle_segments.pod_uid = evidence.pod_uid
            and lifecycle_segments.started_second = evidence.started_second
    where lifecycle_segments.started_second < lifecycle_segments.ended_second
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
    select * from watched_segments
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
    from running_segments
    where segment_kind <> 'end_unknown'
    group by cluster_id, pod_uid

),

-- Time that either source shows as running is not held.
held_segments as (

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

    select * from running_segments
    union all
    select
        cluster_id,
        pod_uid,
        'before_start' as segment_kind,
        started_second,
        ended_second,
        cast(0 as bigint) as uncertainty_before_seconds,
        cast(0 as bigint) as uncertainty_after_seconds
    from held_segments
    where started_second < ended_second

)

select
    segments.cluster_id,
    segments.pod_uid,
    segments.segment_kind,
    contradictory_pods.pod_uid is not null as is_contradicted,
    segments.started_second,
    segments.ended_second,
    segments.uncertainty_before_seconds,
    segments.uncertainty_after_seconds
from segments
left join contradictory_pods
    on
        segments.cluster_id = contradictory_pods.cluster_id
        and segments.pod_uid = contradictory_pods.pod_uid
