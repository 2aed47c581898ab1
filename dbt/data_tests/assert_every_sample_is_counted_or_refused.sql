-- Invariant 19: each sample of a counted metric, in the attempt that is used for its hour, is
-- either read or refused, and occurs once.
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

response_samples as (

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
refused_series as (

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

counted_samples as (

    select
        runs.cluster_id,
        runs.hour_second,
        sum(runs.sample_count) as sample_count
    from {{ ref('int_sample_runs') }} as runs
    where
        runs.metric in {{ counted_metrics() }}
        and runs.sample_quantity is not null
        and not exists (
            select 1
            from refused_series
            where
                runs.cluster_id = refused_series.cluster_id
                and runs.series_key = refused_series.series_key
        )
    group by runs.cluster_id, runs.hour_second

),

refused_samples as (

    select
        cluster_id,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        sum(sample_count) as sample_count
    from {{ ref('fct_refused_samples') }}
    group by cluster_id, hour_started_at

),

accounted_samples as (

    select
        cluster_id,
        hour_second,
        sum(sample_count) as sample_count
    from (
        select * from counted_samples
        union all
        select * from refused_samples
    ) as both_kinds
    group by cluster_id, hour_second

)

select
    response_samples.cluster_id,
    response_samples.hour_second,
    response_samples.sample_count,
    accounted_samples.sample_count as accounted_sample_count
from response_samples
left join accounted_samples
    on
        response_samples.cluster_id = accounted_samples.cluster_id
        and response_samples.hour_second = accounted_samples.hour_second
where response_samples.sample_count <> coalesce(accounted_samples.sample_count, 0)
