with

expected as (

    select *
    from {{ ref('int_expected_hours') }}
    where source = 'thanos'

),

instants as (

    select distinct
        cluster_id,
        metric
    from {{ ref('int_sampled_instants') }}

),

hour_holes as (

    select * from {{ ref('int_hour_holes') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- Metrics that were seen at all; one that never was is missing from the whole cluster.
metrics as (

    select
        cluster_id,
        metric
    from instants
    where
        metric not like 'kube_pod_%'
        or metric in (
            'kube_pod_container_resource_requests', 'kube_pod_status_phase', 'kube_pod_info'
        )

),

coverage as (

    select
        parameters.billing_period,
        expected.cluster_id,
        metrics.metric,
        {{ instant('expected.hour_second') }} as hour_started_at,
        cast(sum(expected.expected_count) as bigint) as expected_count,
        cast(
            sum(least(coalesce(hour_holes.missing_count, 0), expected.expected_count)) as bigint
        ) as missing_count,
        cast(max(coalesce(hour_holes.longest_hole_seconds, 0)) as bigint) as longest_hole_seconds
    from expected
    inner join metrics
        on expected.cluster_id = metrics.cluster_id
    cross join parameters
    left join hour_holes
        on
            expected.window_number = hour_holes.window_number
            and expected.source = hour_holes.source
            and metrics.metric = hour_holes.metric
            and expected.hour_second = hour_holes.hour_second
    group by
        parameters.billing_period, expected.cluster_id, metrics.metric, expected.hour_second

)

select * from coverage
