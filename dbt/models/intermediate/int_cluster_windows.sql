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

expected_windows as (

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
        -- The greatest age of a sample when a hub collects it. In a store that scrapes by itself,
        -- samples have no delay.
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

-- The window of an open period ends with its last attempt.
measured_windows as (

    select
        expected_windows.*,
        greatest(
            least(
                expected_windows.expected_until_second,
                coalesce(horizons.queried_until_second, expected_windows.window_started_second)
            ),
            expected_windows.window_started_second
        ) as window_ended_second,
        row_number()
            over (order by expected_windows.cluster_id, expected_windows.window_started_second)
            as window_number
    from expected_windows
    left join horizons
        on expected_windows.cluster_id = horizons.cluster_id
    where expected_windows.window_started_second < expected_windows.expected_until_second

)

select * from measured_windows
