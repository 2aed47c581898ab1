with

recorded_gaps as (

    select * from {{ ref('int_sample_gaps') }}

),

watch_gaps as (

    select *
    from {{ ref('int_watch_intervals') }}
    where not is_watched

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- The gaps that coverage counts: of the metrics that decide an amount.
sample_gaps as (

    select
        recorded_gaps.cluster_id,
        'thanos' as source,
        recorded_gaps.started_second,
        recorded_gaps.ended_second
    from recorded_gaps
    where
        recorded_gaps.metric in (
            '',
            'kube_pod_container_resource_requests',
            'kube_pod_status_phase',
            'kube_node_status_capacity',
            'kube_node_labels'
        )

),

journal_gaps as (

    select
        watch_gaps.cluster_id,
        'kubernetes' as source,
        greatest(watch_gaps.started_second, windows.window_started_second) as started_second,
        least(watch_gaps.ended_second, windows.window_ended_second) as ended_second
    from watch_gaps
    inner join windows
        on
            watch_gaps.cluster_id = windows.cluster_id
            and windows.expects_journal
            and watch_gaps.started_second < windows.window_ended_second
            and windows.window_started_second < watch_gaps.ended_second

),

every_gap as (

    select * from sample_gaps
    union
    select * from journal_gaps

),

gaps as (

    select
        parameters.billing_period,
        every_gap.cluster_id,
        every_gap.source,
        {{ instant('every_gap.started_second') }} as gap_started_at,
        {{ instant('every_gap.ended_second') }} as gap_ended_at
    from every_gap
    cross join parameters

)

select * from gaps
