with

clusters as (

    select * from {{ ref('stg_decisions__clusters') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

clipped as (

    select
        clusters.cluster_id,
        clusters.cluster_name,
        greatest(clusters.valid_from_second, parameters.period_started_second)
            as window_started_second,
        least(clusters.valid_until_second, parameters.period_ended_second) as window_ended_second,
        clusters.expects_samples,
        clusters.expects_journal,
        clusters.sample_interval_seconds,
        clusters.scrape_interval_seconds,
        clusters.sample_interval_seconds
        + clusters.scrape_interval_seconds
        + {{ clock_tolerance_seconds() }} as agreement_seconds
    from clusters
    cross join parameters

),

measured as (

    select *
    from clipped
    where window_started_second < window_ended_second

)

select * from measured
