with

expected as (

    select * from {{ ref('int_expected_hours') }}

),

hour_gaps as (

    select * from {{ ref('int_hour_gaps') }}

),

pod_gaps as (

    select
        *,
        'thanos' as source
    from {{ ref('int_hour_pod_gaps') }}

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

covered as (

    select
        expected.cluster_id,
        expected.source,
        expected.hour_second,
        sum(expected.expected_count) as expected_count,
        sum(least(coalesce(worst.missing_count, 0), expected.expected_count)) as missing_count,
        sum(coalesce(pod_gaps.missing_count, 0)) as pod_missing_count,
        max(coalesce(worst.longest_gap_seconds, 0)) as longest_gap_seconds
    from expected
    left join worst
        on
            expected.window_number = worst.window_number
            and expected.source = worst.source
            and expected.hour_second = worst.hour_second
    left join pod_gaps
        on
            expected.window_number = pod_gaps.window_number
            and expected.source = pod_gaps.source
            and expected.hour_second = pod_gaps.hour_second
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
        -- No API server answers for the past: an hour that no collector saw cannot be backfilled.
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
