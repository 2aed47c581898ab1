with

evidence as (

    select *
    from {{ ref('int_pod_evidence') }}
    where started_second is not null

),

sampling_intervals as (

    select * from {{ ref('int_sampling_intervals') }}

),

mass_endings as (

    select * from {{ ref('int_mass_endings') }}

),

pod_series as (

    select * from {{ ref('int_pod_series') }}

),

runs as (

    select *
    from {{ ref('int_pod_sample_runs') }}

),

-- Pods that have devices only through a ResourceClaim: no metric shows such devices.
claim_pods as (

    select
        cluster_id,
        pod_uid
    from {{ ref('int_requests') }}
    where journal_device_count is not null
    group by cluster_id, pod_uid
    having min(claim_uid) <> ''

),

-- Running time of a pod without a sample of its allocation: all of it, or its start or end.
-- `short_kind` is the segment kind if the time is at most `agreement_seconds` long, so that the
-- sources do not contradict each other. It is `window_edge` if the pod was cut off at the start or
-- end of the measured time: a sample outside the measured time might show the pod.
unsampled_times as (

    select
        cluster_id,
        pod_uid,
        window_number,
        sample_interval_seconds,
        agreement_seconds,
        case
            when
                started_second = window_started_second
                or known_until_second = window_ended_second
                then 'window_edge'
            else 'too_short'
        end as short_kind,
        started_second,
        known_until_second as ended_second
    from evidence
    where expects_samples and first_sampled_second is null
    union all
    select
        cluster_id,
        pod_uid,
        window_number,
        sample_interval_seconds,
        agreement_seconds,
        'agrees' as short_kind,
        started_second,
        first_inside_second as ended_second
    from evidence
    where
        first_sampled_second is not null
        and first_inside_second - started_second > agreement_seconds
    union all
    select
        cluster_id,
        pod_uid,
        window_number,
        sample_interval_seconds,
        agreement_seconds,
        'agrees' as short_kind,
        last_inside_second as started_second,
        known_until_second as ended_second
    from evidence
    where
        first_sampled_second is not null
        and known_until_second - last_inside_second > agreement_seconds

),

-- Each of these times, cut where a gap of the cluster's samples starts or ends.
unsampled_parts as (

    select
        unsampled_times.cluster_id,
        unsampled_times.pod_uid,
        unsampled_times.window_number,
        unsampled_times.sample_interval_seconds,
        unsampled_times.agreement_seconds,
        unsampled_times.short_kind,
        sampling_intervals.is_gap,
        greatest(unsampled_times.started_second, sampling_intervals.started_second)
            as started_second,
        least(unsampled_times.ended_second, sampling_intervals.ended_second) as ended_second
    from unsampled_times
    inner join sampling_intervals
        on
            unsampled_times.window_number = sampling_intervals.window_number
            and unsampled_times.started_second < sampling_intervals.ended_second
            and sampling_intervals.started_second < unsampled_times.ended_second
    where unsampled_times.started_second < unsampled_times.ended_second

),

-- A sample was due in this time and is missing, although the cluster was sampled.
overdue_segments as (

    select *
    from unsampled_parts
    where not is_gap and ended_second - started_second > agreement_seconds

),

overdue_series as (

    select
        pod_series.cluster_id,
        pod_series.series_key,
        pod_series.metric,
        pod_series.pod_uid
    from pod_series
    inner join (
        select distinct
            cluster_id,
            pod_uid
        from overdue_segments
    ) as pods
        on
            pod_series.cluster_id = pods.cluster_id
            and pod_series.pod_uid = pods.pod_uid

),

other_samples as (

    select
        overdue_series.cluster_id,
        overdue_series.pod_uid,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as first_sampled_second,
        {{ whole_quotient('runs.last_sampled_ms', 1000) }} as last_sampled_second,
        overdue_series.metric = 'kube_pod_status_phase' and runs.sample_quantity = 0
            as is_not_running
    from runs
    inner join overdue_series
        on
            runs.cluster_id = overdue_series.cluster_id
            and runs.series_key = overdue_series.series_key

),

-- If another metric of the pod has later samples, the samples of the allocation have a gap and not
-- an end, unless the phase shows that the pod does not run.
segments_with_samples as (

    select
        overdue_segments.cluster_id,
        overdue_segments.pod_uid,
        overdue_segments.window_number,
        overdue_segments.agreement_seconds,
        overdue_segments.short_kind,
        overdue_segments.started_second,
        overdue_segments.ended_second,
        max(overdue_segments.sample_interval_seconds) as sample_interval_seconds,
        max(case when other_samples.is_not_running then 1 else 0 end) = 1 as is_not_running,
        min(other_samples.first_sampled_second) as first_sampled_second,
        max(other_samples.last_sampled_second) as last_sampled_second,
        max(case when mass_endings.window_number is null then 0 else 1 end) = 1 as is_mass_ending
    from overdue_segments
    left join other_samples
        on
            overdue_segments.cluster_id = other_samples.cluster_id
            and overdue_segments.pod_uid = other_samples.pod_uid
            and overdue_segments.started_second < other_samples.last_sampled_second
            and other_samples.first_sampled_second < overdue_segments.ended_second
    left join mass_endings
        on
            overdue_segments.window_number = mass_endings.window_number
            and overdue_segments.started_second = mass_endings.last_sampled_second
    group by
        overdue_segments.cluster_id,
        overdue_segments.pod_uid,
        overdue_segments.window_number,
        overdue_segments.agreement_seconds,
        overdue_segments.short_kind,
        overdue_segments.started_second,
        overdue_segments.ended_second

),

segments_with_gaps as (

    select
        *,
        case
            when is_mass_ending then started_second
            when is_not_running or first_sampled_second is null then ended_second
            else greatest(started_second, first_sampled_second)
        end as gap_started_second,
        case
            when is_mass_ending then ended_second
            when is_not_running or first_sampled_second is null then ended_second
            else least(ended_second, last_sampled_second + sample_interval_seconds)
        end as gap_ended_second
    from segments_with_samples

),

segment_parts as (

    select
        cluster_id,
        pod_uid,
        window_number,
        agreement_seconds,
        short_kind,
        is_gap,
        started_second,
        ended_second
    from unsampled_parts
    where is_gap or ended_second - started_second <= agreement_seconds
    union all
    select
        cluster_id,
        pod_uid,
        window_number,
        agreement_seconds,
        short_kind,
        false as is_gap,
        started_second,
        gap_started_second as ended_second
    from segments_with_gaps
    union all
    select
        cluster_id,
        pod_uid,
        window_number,
        agreement_seconds,
        short_kind,
        true as is_gap,
        gap_started_second as started_second,
        gap_ended_second as ended_second
    from segments_with_gaps
    union all
    select
        cluster_id,
        pod_uid,
        window_number,
        agreement_seconds,
        short_kind,
        false as is_gap,
        gap_ended_second as started_second,
        ended_second
    from segments_with_gaps

),

segments as (

    select
        parts.cluster_id,
        parts.pod_uid,
        parts.window_number,
        case
            when claim_pods.pod_uid is not null then 'no_metric'
            when parts.is_gap then 'sample_gap'
            when parts.ended_second - parts.started_second > parts.agreement_seconds then 'absent'
            else parts.short_kind
        end as segment_kind,
        parts.started_second,
        parts.ended_second
    from segment_parts as parts
    left join claim_pods
        on
            parts.cluster_id = claim_pods.cluster_id
            and parts.pod_uid = claim_pods.pod_uid
    where parts.started_second < parts.ended_second
    union all
    select
        cluster_id,
        pod_uid,
        window_number,
        'samples_not_expected' as segment_kind,
        started_second,
        known_until_second as ended_second
    from evidence
    where not expects_samples and started_second < known_until_second

)

select * from segments
