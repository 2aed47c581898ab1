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

-- Two collectors that watch at once both hear it.
heard as (

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

named as (

    select
        parameters.billing_period,
        heard.cluster_id,
        {{ instant('heard.observed_second') }} as observed_at,
        heard.object_kind,
        heard.object_uid,
        heard.contradiction,
        heard.before_value,
        heard.after_value
    from heard
    cross join parameters

)

select * from named
