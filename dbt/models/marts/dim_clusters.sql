with

clusters as (

    select * from {{ ref('int_cluster_windows') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

measured_clusters as (

    select
        parameters.billing_period,
        clusters.cluster_id,
        clusters.cluster_name,
        {{ instant('clusters.window_started_second') }} as measured_from,
        {{ instant('clusters.expected_until_second') }} as measured_until,
        clusters.expects_samples,
        clusters.expects_journal,
        clusters.sample_interval_seconds,
        clusters.scrape_interval_seconds
    from clusters
    cross join parameters

)

select * from measured_clusters
