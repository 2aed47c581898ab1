with

clusters as (

    select * from {{ ref('stg_decisions__clusters') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

attempts as (

    select * from {{ ref('stg_landing__attempts') }}

),

horizons as (

    select
        cluster_id,
        max(hour_second) + 3600 as asked_until_second
    from attempts
    group by cluster_id

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

-- What was never asked is not due: an open period ends, for now, with its last attempt.
measured as (

    select
        clipped.*,
        least(
            clipped.window_ended_second,
            coalesce(horizons.asked_until_second, clipped.window_started_second)
        ) as due_until_second,
        row_number() over (order by clipped.cluster_id, clipped.window_started_second)
            as window_number
    from clipped
    left join horizons
        on clipped.cluster_id = horizons.cluster_id
    where clipped.window_started_second < clipped.window_ended_second

)

select * from measured
