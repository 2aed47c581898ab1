with

series as (

    select *
    from {{ ref('stg_thanos__series') }}
    where metric in {{ counted_metrics() }}

),

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where metric in {{ counted_metrics() }}

),

expected_hours as (

    select distinct
        cluster_id,
        hour_second
    from {{ ref('int_expected_hours') }}
    where source = 'thanos'

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- The labels that identify the pod, node or device of a sample.
labelled_series as (

    select
        cluster_id,
        series_key,
        labels,
        label_invalid,
        case label_invalid
            when 'uid' then pod_uid
            when 'pod' then pod_name
            when 'namespace' then {{ label('labels', 'namespace') }}
            when 'node' then {{ label('labels', 'node') }}
            else ''
        end as invalid_value,
        case
            when label_invalid <> '' then ''
            when metric like 'kube_pod_%' and pod_uid = '' then 'uid'
            when metric like 'kube_pod_%' and pod_name = '' then 'pod'
            when metric like 'kube_pod_%' and {{ label('labels', 'namespace') }} = ''
                then 'namespace'
            when metric like 'kube_node_%' and {{ label('labels', 'node') }} = '' then 'node'
            when
                (metric like '%_resource_requests' or metric like 'kube_node_%')
                and {{ label('labels', 'resource') }} = ''
                then 'resource'
            else ''
        end as label_missing
    from series

),

refused_series as (

    select distinct
        cluster_id,
        series_key,
        label_missing,
        label_invalid,
        case when label_missing <> '' then {{ map_as_json('labels') }} else invalid_value end
            as example
    from labelled_series
    where label_missing <> '' or label_invalid <> ''

),

refused_runs as (

    select
        runs.*,
        coalesce(refused_series.label_missing, '') as label_missing,
        coalesce(refused_series.label_invalid, '') as label_invalid,
        coalesce(refused_series.example, runs.sample_value) as example
    from runs
    left join refused_series
        on
            runs.cluster_id = refused_series.cluster_id
            and runs.series_key = refused_series.series_key
    where refused_series.series_key is not null or runs.sample_quantity is null

),

refused_hours as (

    select
        parameters.billing_period,
        refused_runs.cluster_id,
        {{ instant('refused_runs.hour_second') }} as hour_started_at,
        refused_runs.metric,
        refused_runs.label_missing,
        refused_runs.label_invalid,
        {{ instant(whole_quotient('min(refused_runs.first_sampled_ms)', 1000)) }}
            as first_sampled_at,
        {{ instant(whole_quotient('max(refused_runs.last_sampled_ms)', 1000)) }}
            as last_sampled_at,
        count(distinct refused_runs.series_key) as series_count,
        cast(sum(refused_runs.sample_count) as bigint) as sample_count,
        min(refused_runs.example) as example
    from refused_runs
    inner join expected_hours
        on
            refused_runs.cluster_id = expected_hours.cluster_id
            and refused_runs.hour_second = expected_hours.hour_second
    cross join parameters
    group by
        parameters.billing_period,
        refused_runs.cluster_id,
        refused_runs.hour_second,
        refused_runs.metric,
        refused_runs.label_missing,
        refused_runs.label_invalid

)

select * from refused_hours
