with

runs as (

    select *
    from {{ ref('stg_thanos__sample_runs') }}
    where metric like 'kube_%' or metric = 'up'

),

attempts as (

    select *
    from {{ ref('int_attempts_used') }}
    where source = 'thanos'

),

-- A sample of any series shows that the metric was sampled.
instants as (

    select
        runs.cluster_id,
        runs.metric,
        runs.first_sampled_ms,
        max(runs.last_sampled_ms) as last_sampled_ms
    from runs
    inner join attempts
        on
            runs.cluster_id = attempts.cluster_id
            and runs.attempt_id = attempts.attempt_id
            and runs.hour_second = attempts.hour_second
    group by runs.cluster_id, runs.metric, runs.first_sampled_ms

)

select * from instants
