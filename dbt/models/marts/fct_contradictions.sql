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

-- Two collectors that watch at the same time both record it.
recorded as (

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

-- The scheduler and kube-state-metrics are both sampled.
of_pods as (

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

every as (

    select
        cluster_id,
        'kubernetes' as source,
        observed_second,
        object_kind,
        object_uid,
        contradiction,
        before_value,
        after_value
    from recorded
    union all
    select * from of_pods

),

named as (

    select
        parameters.billing_period,
        every.cluster_id,
        every.source,
        {{ instant('every.observed_second') }} as observed_at,
        every.object_kind,
        every.object_uid,
        every.contradiction,
        every.before_value,
        every.after_value
    from every
    cross join parameters

)

select * from named
