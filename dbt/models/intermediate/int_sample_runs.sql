{{ config(materialized='view') }}

with

runs as (

    select *
    from {{ ref('stg_thanos__sample_runs') }}
    where metric like 'kube_%'

),

attempts as (

    select *
    from {{ ref('int_attempts_used') }}
    where source = 'thanos'

),

numeric_runs as (

    select
        runs.cluster_id,
        runs.hour_second,
        runs.metric,
        runs.series_key,
        runs.first_sampled_ms,
        runs.last_sampled_ms,
        runs.sample_count,
        runs.sample_value,
        try_cast(runs.sample_value as double) as sample_number
    from runs
    inner join attempts
        on
            runs.cluster_id = attempts.cluster_id
            and runs.attempt_id = attempts.attempt_id
            and runs.hour_second = attempts.hour_second

),

-- A sample has a quantity only if its value is a whole number from 0 to 10^15: not NaN, -1, 0.5,
-- 1e308.
whole_runs as (

    select
        cluster_id,
        hour_second,
        metric,
        series_key,
        first_sampled_ms,
        last_sampled_ms,
        sample_count,
        sample_value,
        case
            when
                sample_number >= 0
                and sample_number <= 1000000000000000
                and sample_number % 1 = 0
                then cast(sample_number as bigint)
        end as sample_quantity
    from numeric_runs

)

select * from whole_runs
