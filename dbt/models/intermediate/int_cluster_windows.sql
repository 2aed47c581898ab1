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
        max(hour_second) + 3600 as queried_until_second
    from attempts
    group by cluster_id

),

clipped as (

    select
        clusters.cluster_id,
        clusters.cluster_name,
        greatest(clusters.valid_from_second, parameters.period_started_second)
            as window_started_second,
        least(clusters.valid_until_second, parameters.period_ended_second)
            as expected_until_second,
        clusters.expects_samples,
        clusters.expects_journal,
        clusters.sample_interval_seconds,
        clusters.scrape_interval_seconds,
        -- How old the newest sample may be when a hub collects it; a store that scrapes has it new.
        case
            when clusters.scrape_interval_seconds < clusters.sample_interval_seconds
                then clusters.scrape_interval_seconds
            else 0
        end as sample_delay_seconds,
        clusters.sample_interval_seconds
        + clusters.scrape_interval_seconds
        + {{ clock_tolerance_seconds() }} as agreement_seconds
    from clusters
    cross join parameters

),

-- An open period is measured, for now, as far as its last attempt.
measured as (

    select
        clipped.*,
        greatest(
            least(
                clipped.expected_until_second,
                coalesce(horizons.queried_until_second, clipped.window_started_second)
            ),
            clipped.window_started_second
        ) as window_ended_second,
        row_number() over (order by clipped.cluster_id, clipped.window_started_second)
            as window_number
    from clipped
    left join horizons
        on clipped.cluster_id = horizons.cluster_id
    where clipped.window_started_second < clipped.expected_until_second

)

select * from measured
