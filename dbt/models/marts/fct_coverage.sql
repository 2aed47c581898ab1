with

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

sample_holes as (

    select *
    from {{ ref('int_sample_stretches') }}
    where is_hole

),

unwatched as (

    select *
    from {{ ref('int_watch_stretches') }}
    where not is_watched

),

-- What the calendar expects, hour by hour and witness by witness.
expected as (

    select
        windows.cluster_id,
        'thanos' as source,
        segments.hour_second,
        windows.window_started_second,
        greatest(segments.hour_second, windows.window_started_second) as started_second,
        least(segments.hour_second + 3600, windows.window_ended_second) as ended_second,
        windows.sample_interval_seconds as unit_seconds
    from windows
    inner join segments
        on
            windows.expects_samples
            and segments.hour_second + 3600 > windows.window_started_second
            and segments.hour_second < windows.window_ended_second
    union all
    select
        windows.cluster_id,
        'kubernetes' as source,
        segments.hour_second,
        windows.window_started_second,
        greatest(segments.hour_second, windows.window_started_second) as started_second,
        least(segments.hour_second + 3600, windows.window_ended_second) as ended_second,
        1 as unit_seconds
    from windows
    inner join segments
        on
            windows.expects_journal
            and segments.hour_second + 3600 > windows.window_started_second
            and segments.hour_second < windows.window_ended_second

),

-- Samples were due at the start of a hole and every interval after it.
holes as (

    select
        windows.cluster_id,
        'thanos' as source,
        sample_holes.started_second,
        sample_holes.ended_second,
        {{ whole_quotient(
            '2 * (sample_holes.ended_second - sample_holes.started_second)'
            ~ ' + windows.sample_interval_seconds',
            '2 * windows.sample_interval_seconds'
        ) }} as due_count
    from sample_holes
    inner join windows
        on sample_holes.window_number = windows.window_number
    union all
    select
        cluster_id,
        'kubernetes' as source,
        started_second,
        ended_second,
        ended_second - started_second as due_count
    from unwatched

),

-- A missing sample is counted in the hour in which it was due; the journal is counted in seconds.
missing as (

    select
        expected.cluster_id,
        expected.source,
        expected.hour_second,
        sum(
            least(
                {{ whole_quotient(
                    'expected.ended_second - holes.started_second + expected.unit_seconds - 1',
                    'expected.unit_seconds'
                ) }},
                holes.due_count
            )
            - least(
                {{ whole_quotient(
                    'greatest(expected.started_second - holes.started_second, 0)'
                    ~ ' + expected.unit_seconds - 1',
                    'expected.unit_seconds'
                ) }},
                holes.due_count
            )
        ) as missing_count,
        max(
            least(holes.ended_second, expected.ended_second)
            - greatest(holes.started_second, expected.started_second)
        ) as longest_hole_seconds
    from expected
    inner join holes
        on
            expected.cluster_id = holes.cluster_id
            and expected.source = holes.source
            and holes.started_second < expected.ended_second
            and expected.started_second < holes.ended_second
    group by expected.cluster_id, expected.source, expected.hour_second

),

ranked_attempts as (

    select
        *,
        row_number() over (
            partition by cluster_id, source, hour_second
            order by case when outcome = 'ok' then 0 else 1 end, attempt_sequence desc
        ) as preference
    from attempts

),

covered as (

    select
        expected.cluster_id,
        expected.source,
        expected.hour_second,
        sum(
            {{ whole_quotient(
                'expected.ended_second - expected.started_second + expected.unit_seconds - 1',
                'expected.unit_seconds'
            ) }}
        ) as expected_count,
        max(coalesce(missing.missing_count, 0)) as missing_count,
        max(coalesce(missing.longest_hole_seconds, 0)) as longest_hole_seconds
    from expected
    left join missing
        on
            expected.cluster_id = missing.cluster_id
            and expected.source = missing.source
            and expected.hour_second = missing.hour_second
    group by expected.cluster_id, expected.source, expected.hour_second

),

coverage as (

    select
        parameters.billing_period,
        covered.cluster_id,
        covered.source,
        {{ instant('covered.hour_second') }} as hour_started_at,
        cast(covered.expected_count as bigint) as expected_count,
        cast(greatest(covered.expected_count - covered.missing_count, 0) as bigint) as seen_count,
        cast(least(covered.missing_count, covered.expected_count) as bigint) as missing_count,
        cast(covered.longest_hole_seconds as bigint) as longest_hole_seconds,
        coalesce(ranked_attempts.outcome, 'not_asked') as outcome,
        coalesce(ranked_attempts.outcome_reason, 'never asked') as reason,
        -- No API server answers for the past: an hour that no collector saw cannot be healed.
        covered.source = 'thanos' as healable,
        coalesce(ranked_attempts.attempt_id, '') as attempt_id
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
