with

expected_hours as (

    select * from {{ ref('int_expected_hours') }}

),

hour_gaps as (

    select * from {{ ref('int_hour_gaps') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

segments as (

    select distinct hour_second
    from {{ ref('int_segments') }}

),

attempts as (

    select * from {{ ref('stg_landing__attempts') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- The least complete metric that decides an amount gives the completeness of an hour's samples.
worst_gaps as (

    select
        window_number,
        source,
        hour_second,
        max(missing_count) as missing_count,
        max(longest_gap_seconds) as longest_gap_seconds,
        count(distinct metric) as gap_metric_count
    from hour_gaps
    where
        metric in (
            '',
            'kube_pod_container_resource_requests',
            'kube_pod_status_phase',
            'kube_node_status_capacity',
            'kube_node_labels'
        )
    group by window_number, source, hour_second

),

cluster_gaps as (

    select
        window_number,
        started_second,
        ended_second
    from {{ ref('int_sample_gaps') }}
    where metric in ('', 'kube_pod_container_resource_requests', 'kube_pod_status_phase')

),

cluster_gap_changes as (

    select
        window_number,
        window_started_second as changed_second,
        0 as gap_change
    from windows
    union all
    select
        window_number,
        started_second as changed_second,
        1 as gap_change
    from cluster_gaps
    union all
    select
        window_number,
        ended_second as changed_second,
        -1 as gap_change
    from cluster_gaps

),

cluster_gap_levels as (

    select
        window_number,
        changed_second as started_second,
        lead(changed_second) over (
            partition by window_number order by changed_second
        ) as ended_second,
        sum(gap_change) over (
            partition by window_number
            order by changed_second
            range between unbounded preceding and current row
        ) as gap_count
    from cluster_gap_changes

),

-- Time in which the samples of all pods are missing is a gap of the cluster and not of single pods.
sampled_times as (

    select
        cluster_gap_levels.window_number,
        cluster_gap_levels.started_second,
        coalesce(cluster_gap_levels.ended_second, windows.window_ended_second) as ended_second
    from cluster_gap_levels
    inner join windows
        on cluster_gap_levels.window_number = windows.window_number
    where cluster_gap_levels.gap_count = 0

),

neighbours as (

    select
        window_number,
        last_sampled_second,
        lead(first_sampled_second) over (
            partition by cluster_id, pod_uid, window_number order by first_sampled_second
        ) as next_sampled_second
    from {{ ref('int_allocations_from_samples') }}

),

-- After the last sample before a gap, one sample was due in each sampling interval.
pod_gaps as (

    select
        neighbours.window_number,
        neighbours.last_sampled_second + windows.sample_interval_seconds as first_due_second,
        neighbours.next_sampled_second as ended_second,
        windows.sample_interval_seconds,
        {{ whole_quotient(
            '2 * (neighbours.next_sampled_second - neighbours.last_sampled_second)'
            ~ ' + windows.sample_interval_seconds',
            '2 * windows.sample_interval_seconds'
        ) }} - 1 as due_count
    from neighbours
    inner join windows
        on neighbours.window_number = windows.window_number
    where neighbours.next_sampled_second is not null

),

pod_gap_parts as (

    select
        pod_gaps.window_number,
        pod_gaps.first_due_second,
        pod_gaps.sample_interval_seconds,
        pod_gaps.due_count,
        segments.hour_second,
        greatest(pod_gaps.first_due_second, sampled_times.started_second, segments.hour_second)
            as started_second,
        least(pod_gaps.ended_second, sampled_times.ended_second, segments.hour_second + 3600)
            as ended_second
    from pod_gaps
    inner join sampled_times
        on
            pod_gaps.window_number = sampled_times.window_number
            and pod_gaps.first_due_second < sampled_times.ended_second
            and sampled_times.started_second < pod_gaps.ended_second
    inner join segments
        on
            pod_gaps.first_due_second < segments.hour_second + 3600
            and segments.hour_second < pod_gaps.ended_second
            and sampled_times.started_second < segments.hour_second + 3600
            and segments.hour_second < sampled_times.ended_second

),

pod_gap_hours as (

    select
        window_number,
        hour_second,
        sum(
            least(
                {{ whole_quotient(
                    'ended_second - first_due_second + sample_interval_seconds - 1',
                    'sample_interval_seconds'
                ) }},
                due_count
            )
            - least(
                {{ whole_quotient(
                    'started_second - first_due_second + sample_interval_seconds - 1',
                    'sample_interval_seconds'
                ) }},
                due_count
            )
        ) as missing_count
    from pod_gap_parts
    where started_second < ended_second
    group by window_number, hour_second

),

covered_hours as (

    select
        expected_hours.cluster_id,
        expected_hours.source,
        expected_hours.hour_second,
        sum(expected_hours.expected_count) as expected_count,
        sum(least(coalesce(worst_gaps.missing_count, 0), expected_hours.expected_count))
            as missing_count,
        sum(coalesce(pod_gap_hours.missing_count, 0)) as pod_missing_count,
        max(coalesce(worst_gaps.longest_gap_seconds, 0)) as longest_gap_seconds
    from expected_hours
    left join worst_gaps
        on
            expected_hours.window_number = worst_gaps.window_number
            and expected_hours.source = worst_gaps.source
            and expected_hours.hour_second = worst_gaps.hour_second
    left join pod_gap_hours
        on
            expected_hours.window_number = pod_gap_hours.window_number
            and expected_hours.source = 'thanos'
            and expected_hours.hour_second = pod_gap_hours.hour_second
    group by expected_hours.cluster_id, expected_hours.source, expected_hours.hour_second

),

ranked_attempts as (

    select
        *,
        count(*) over (partition by cluster_id, source, hour_second) as attempt_count,
        row_number() over (
            partition by cluster_id, source, hour_second
            order by case when outcome = 'ok' then 0 else 1 end asc, attempt_sequence desc
        ) as preference
    from attempts

),

coverage as (

    select
        parameters.billing_period,
        covered_hours.cluster_id,
        covered_hours.source,
        {{ instant('covered_hours.hour_second') }} as hour_started_at,
        cast(covered_hours.expected_count as bigint) as expected_count,
        cast(covered_hours.expected_count - covered_hours.missing_count as bigint) as seen_count,
        cast(covered_hours.missing_count as bigint) as missing_count,
        cast(covered_hours.pod_missing_count as bigint) as pod_missing_count,
        cast(covered_hours.longest_gap_seconds as bigint) as longest_gap_seconds,
        coalesce(ranked_attempts.outcome, 'not_asked') as outcome,
        coalesce(ranked_attempts.outcome_reason, 'never asked') as reason,
        -- An API server keeps no history: an hour without a watch cannot be backfilled.
        covered_hours.source = 'thanos' as backfillable,
        coalesce(ranked_attempts.attempt_id, '') as attempt_id,
        coalesce(ranked_attempts.attempt_count, 0) as attempt_count
    from covered_hours
    cross join parameters
    left join ranked_attempts
        on
            covered_hours.cluster_id = ranked_attempts.cluster_id
            and covered_hours.source = ranked_attempts.source
            and covered_hours.hour_second = ranked_attempts.hour_second
            and ranked_attempts.preference = 1

)

select * from coverage
