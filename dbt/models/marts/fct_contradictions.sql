with

contradictions as (

    select * from {{ ref('stg_kubernetes__contradictions') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- Two collectors that watch at the same time record a contradiction twice.
journal_contradictions as (

    select distinct
        contradictions.cluster_id,
        contradictions.observed_second,
        contradictions.object_kind,
        contradictions.object_uid,
        contradictions.contradiction,
        contradictions.before_value,
        contradictions.after_value
    from contradictions
    inner join attempts
        on
            contradictions.cluster_id = attempts.cluster_id
            and contradictions.attempt_id = attempts.attempt_id
    inner join windows
        on
            contradictions.cluster_id = windows.cluster_id
            and contradictions.observed_second >= windows.window_started_second
            and contradictions.observed_second < windows.window_ended_second

),

-- Contradictions between the scheduler and kube-state-metrics are both from samples.
pod_contradictions as (

    select
        contradictions.cluster_id,
        case
            when contradictions.contradiction = 'sources_differ' then 'both'
            else 'thanos'
        end as source,
        contradictions.first_sampled_second as observed_second,
        'pods' as object_kind,
        contradictions.pod_uid as object_uid,
        contradictions.contradiction,
        contradictions.before_value,
        contradictions.after_value
    from {{ ref('int_pod_contradictions') }} as contradictions

),

all_contradictions as (

    select
        cluster_id,
        'kubernetes' as source,
        observed_second,
        object_kind,
        object_uid,
        contradiction,
        before_value,
        after_value
    from journal_contradictions
    union all
    select * from pod_contradictions

),

period_contradictions as (

    select
        parameters.billing_period,
        all_contradictions.cluster_id,
        all_contradictions.source,
        {{ instant('all_contradictions.observed_second') }} as observed_at,
        all_contradictions.object_kind,
        all_contradictions.object_uid,
        all_contradictions.contradiction,
        all_contradictions.before_value,
        all_contradictions.after_value
    from all_contradictions
    cross join parameters

)

select * from period_contradictions
