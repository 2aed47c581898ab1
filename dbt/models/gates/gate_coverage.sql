with

coverage as (

    select * from {{ ref('fct_coverage') }}

),

gate as (

    select
        billing_period,
        cluster_id,
        source,
        count(*) as hour_count,
        count(distinct hour_started_at) as distinct_hour_count,
        cast(sum(expected_count) as decimal(38, 0)) as expected_count,
        cast(sum(seen_count + missing_count) as decimal(38, 0)) as accounted_count,
        cast(min(expected_count) as bigint) as smallest_expected_count,
        cast(min(least(seen_count, missing_count)) as bigint) as smallest_count
    from coverage
    group by billing_period, cluster_id, source

)

select * from gate
