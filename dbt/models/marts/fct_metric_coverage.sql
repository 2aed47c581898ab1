with

due_times as (

    select * from {{ ref('int_metrics_due') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

segments as (

    select distinct hour_second
    from {{ ref('int_segments') }}

),

hour_gaps as (

    select *
    from {{ ref('int_hour_gaps') }}
    where source = 'thanos'

),

sampled_metrics as (

    select distinct
        cluster_id,
        metric
    from {{ ref('int_sampled_instants') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

due_hours as (

    select
        due_times.window_number,
        due_times.cluster_id,
        due_times.metric,
        segments.hour_second,
        sum(
            {{ whole_quotient(
                'least(due_times.ended_ms, (segments.hour_second + 3600) * 1000)'
                ~ ' - greatest(due_times.started_ms, segments.hour_second * 1000)'
                ~ ' + windows.sample_interval_seconds * 1000 - 1',
                'windows.sample_interval_seconds * 1000'
            ) }}
        ) as expected_count
    from due_times
    inner join windows
        on due_times.window_number = windows.window_number
    inner join segments
        on
            due_times.started_ms < (segments.hour_second + 3600) * 1000
            and due_times.ended_ms > segments.hour_second * 1000
    where due_times.metric <> ''
    group by due_times.window_number, due_times.cluster_id, due_times.metric, segments.hour_second

),

coverage as (

    select
        parameters.billing_period,
        due_hours.cluster_id,
        due_hours.metric,
        {{ instant('due_hours.hour_second') }} as hour_started_at,
        cast(sum(due_hours.expected_count) as bigint) as expected_count,
        cast(
            sum(
                case
                    when sampled_metrics.metric is null then due_hours.expected_count
                    else least(coalesce(hour_gaps.missing_count, 0), due_hours.expected_count)
                end
            ) as bigint
        ) as missing_count,
        cast(max(coalesce(hour_gaps.longest_gap_seconds, 0)) as bigint) as longest_gap_seconds
    from due_hours
    cross join parameters
    left join sampled_metrics
        on
            due_hours.cluster_id = sampled_metrics.cluster_id
            and due_hours.metric = sampled_metrics.metric
    left join hour_gaps
        on
            due_hours.window_number = hour_gaps.window_number
            and due_hours.metric = hour_gaps.metric
            and due_hours.hour_second = hour_gaps.hour_second
    group by
        parameters.billing_period, due_hours.cluster_id, due_hours.metric, due_hours.hour_second

)

select * from coverage
