with

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- The end of the last query of any cluster, rounded down to a whole hour, so that the last hour is
-- complete.
progress as (

    select
        parameters.billing_period,
        parameters.period_started_second,
        parameters.period_ended_second,
        coalesce(max(windows.window_ended_second), parameters.period_started_second)
            as counted_until_second
    from parameters
    left join windows
        on true
    group by
        parameters.billing_period,
        parameters.period_started_second,
        parameters.period_ended_second

)

select * from progress
