with

observations as (

    select * from {{ ref('stg_kubernetes__namespaces') }}

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

namespaces as (

    select
        observations.cluster_id,
        observations.namespace,
        observations.namespace_uid,
        min(observations.observed_second) as first_seen_second,
        max(observations.observed_second) as last_seen_second,
        bool_or(observations.is_deleted) as is_deleted
    from observations
    inner join attempts
        on
            observations.cluster_id = attempts.cluster_id
            and observations.attempt_id = attempts.attempt_id
    inner join windows
        on
            observations.cluster_id = windows.cluster_id
            and observations.observed_second >= windows.window_started_second
            and observations.observed_second < windows.window_ended_second
    group by observations.cluster_id, observations.namespace, observations.namespace_uid

),

period_namespaces as (

    select
        parameters.billing_period,
        namespaces.cluster_id,
        namespaces.namespace,
        namespaces.namespace_uid,
        {{ instant('namespaces.first_seen_second') }} as first_seen_at,
        {{ instant('namespaces.last_seen_second') }} as last_seen_at,
        namespaces.is_deleted
    from namespaces
    cross join parameters

)

select * from period_namespaces
