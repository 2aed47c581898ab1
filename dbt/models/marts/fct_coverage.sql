with

expected as (

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

-- The samples of an hour are as complete as the least complete metric that decides an amount.
worst as (

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

-- Time in which the samples of all pods are missing is a gap of the cluster and not of a pod.
sampled as (

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

-- After the last sample, one sample was due in each sampling interval.
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
        greatest(pod_gaps.first_due_second, sampled.started_second, segments.hour_second)
            as started_second,
        least(pod_gaps.ended_second, sampled.ended_second, segments.hour_second + 3600)
            as ended_second
    from pod_gaps
    inner join sampled
        on
            pod_gaps.window_number = sampled.window_number
            and pod_gaps.first_due_second < sampled.ended_second
            and sampled.started_second < pod_gaps.ended_second
    inner join segments
        on
            pod_gaps.first_due_second < segments.hour_second + 3600
            and segments.hour_second < pod_gaps.ended_second
            and sampled.started_second < segments.hour_second + 3600
            and segments.hour_second < sampled.ended_second

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

covered as (

    select
        expected.cluster_id,
        expected.source,
        expected.hour_second,
        sum(expected.expected_count) as expected_count,
        sum(least(coalesce(worst.missing_count, 0), expected.expected_count)) as missing_count,
        sum(coalesce(pod_gap_hours.missing_count, 0)) as pod_missing_count,
        max(coalesce(worst.longest_gap_seconds, 0)) as longest_gap_seconds
    from expected
    left join worst
        on
            expected.window_number = worst.window_number
            and expected.source = worst.source
            and expected.hour_second = worst.hour_second
    left join pod_gap_hours
        on
            expected.window_number = pod_gap_hours.window_number
            and expected.source = 'thanos'
            and expected.hour_second = pod_gap_hours.hour_second
    group by expected.cluster_id, expected.source, expected.hour_second

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
        covered.cluster_id,
        covered.source,
        {{ instant('covered.hour_second') }} as hour_started_at,
        cast(covered.expected_count as bigint) as expected_count,
        cast(covered.expected_count - covered.missing_count as bigint) as seen_count,
        cast(covered.missing_count as bigint) as missing_count,
        cast(covered.pod_missing_count as bigint) as pod_missing_count,
        cast(covered.longest_gap_seconds as bigint) as longest_gap_seconds,
        coalesce(ranked_attempts.outcome, 'not_asked') as outcome,
        coalesce(ranked_attempts.outcome_reason, 'never asked') as reason,
        -- An API server has no history: an hour that no collector watched cannot be backfilled.
        covered.source = 'thanos' as backfillable,
        coalesce(ranked_attempts.attempt_id, '') as attempt_id,
        coalesce(ranked_attempts.attempt_count, 0) as attempt_count
    from covered
    cross join parameters
    left join ranked_attempts
        on
            covered.cluster_id = ranked_attempts.cluster_id
            and covered.source = ranked_attempts.source
            and covered.hour_second = ranked_attempts.hour_second
            and ranked_attempts.preference = 1

)

select * from coverage
