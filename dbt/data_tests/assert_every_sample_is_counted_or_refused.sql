-- Invariant 19: the samples of counted metrics that an hour's attempt in use brought are those that
-- are read and those that are refused, none of them lost or there twice.
with

hours as (

    select distinct
        used.cluster_id,
        used.hour_second,
        used.attempt_id
    from {{ ref('int_attempts_used') }} as used
    inner join {{ ref('int_expected_hours') }} as expected
        on
            used.cluster_id = expected.cluster_id
            and used.hour_second = expected.hour_second
            and used.source = expected.source
    where used.source = 'thanos'

),

brought as (

    select
        hours.cluster_id,
        hours.hour_second,
        sum(runs.sample_count) as sample_count
    from {{ ref('stg_thanos__sample_runs') }} as runs
    inner join hours
        on
            runs.cluster_id = hours.cluster_id
            and runs.hour_second = hours.hour_second
            and runs.attempt_id = hours.attempt_id
    where runs.metric in {{ counted_metrics() }}
    group by hours.cluster_id, hours.hour_second

),

-- A series whose labels do not identify a pod, node or device.
nameless as (

    select distinct
        cluster_id,
        series_key
    from {{ ref('stg_thanos__series') }}
    where
        label_invalid <> ''
        or (metric like 'kube_pod_%' and (
            pod_uid = '' or pod_name = '' or {{ label('labels', 'namespace') }} = ''
        ))
        or (metric like 'kube_node_%' and {{ label('labels', 'node') }} = '')
        or (
            (metric like '%_resource_requests' or metric like 'kube_node_%')
            and {{ label('labels', 'resource') }} = ''
        )

),

counted as (

    select
        runs.cluster_id,
        runs.hour_second,
        sum(runs.sample_count) as sample_count
    from {{ ref('int_sample_runs') }} as runs
    left join nameless
        on
            runs.cluster_id = nameless.cluster_id
            and runs.series_key = nameless.series_key
    where
        runs.metric in {{ counted_metrics() }}
        and runs.sample_quantity is not null
        and nameless.series_key is null
    group by runs.cluster_id, runs.hour_second

),

refused as (

    select
        cluster_id,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        sum(sample_count) as sample_count
    from {{ ref('fct_refused_samples') }}
    group by cluster_id, hour_started_at

),

accounted as (

    select
        cluster_id,
        hour_second,
        sum(sample_count) as sample_count
    from (
        select * from counted
        union all
        select * from refused
    ) as both_kinds
    group by cluster_id, hour_second

)

select
    brought.cluster_id,
    brought.hour_second,
    brought.sample_count,
    accounted.sample_count as accounted_sample_count
from brought
left join accounted
    on
        brought.cluster_id = accounted.cluster_id
        and brought.hour_second = accounted.hour_second
where brought.sample_count <> coalesce(accounted.sample_count, 0)
