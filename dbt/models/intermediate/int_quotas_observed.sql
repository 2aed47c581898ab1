{{ config(materialized='ephemeral') }}

with

quotas as (

    select * from {{ ref('stg_kubernetes__quotas') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where metric = 'kube_resourcequota' and sample_quantity is not null

),

series as (

    select distinct
        cluster_id,
        series_key,
        {{ label('labels', 'namespace') }} as namespace,
        {{ label('labels', 'resourcequota') }} as quota_name,
        -- One spelling for both sources.
        replace({{ label('labels', 'resource') }}, 'requests.', '') as resource,
        {{ label('labels', 'type') }} as quota_type
    from {{ ref('stg_thanos__series') }}
    where metric = 'kube_resourcequota' and label_invalid = ''

),

journal as (

    select
        quotas.cluster_id,
        quotas.namespace,
        quotas.quota_name,
        replace(quotas.resource, 'requests.', '') as resource,
        quotas.observed_second,
        max(quotas.hard_count) as hard_count,
        max(quotas.used_count) as used_count,
        'kubernetes' as source
    from quotas
    inner join attempts
        on
            quotas.cluster_id = attempts.cluster_id
            and quotas.attempt_id = attempts.attempt_id
    group by
        quotas.cluster_id,
        quotas.namespace,
        quotas.quota_name,
        quotas.resource,
        quotas.observed_second

),

sampled as (

    select
        runs.cluster_id,
        series.namespace,
        series.quota_name,
        series.resource,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as observed_second,
        max(case when series.quota_type = 'hard' then runs.sample_quantity end) as hard_count,
        max(case when series.quota_type = 'used' then runs.sample_quantity end) as used_count,
        'thanos' as source
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    group by
        runs.cluster_id,
        series.namespace,
        series.quota_name,
        series.resource,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }}

),

observed as (

    select * from journal
    union all
    select * from sampled

)

select * from observed
