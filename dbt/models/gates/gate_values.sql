with

pod_hours as (

    select * from {{ ref('fct_pod_hours') }}

),

coverage as (

    select * from {{ ref('fct_coverage') }}

),

-- Every cluster of the calendar has a row, also without any use.
clusters as (

    select distinct
        billing_period,
        cluster_id
    from coverage

),

gate as (

    select
        clusters.billing_period,
        clusters.cluster_id,
        count(*) filter (
            where least(
                pod_hours.running_seconds,
                pod_hours.held_seconds,
                pod_hours.billable_seconds,
                pod_hours.uncertainty_seconds
            ) < 0
        ) as negative_count,
        count(*) filter (where pod_hours.cost_nanos < 0) as negative_cost_count,
        count(*) filter (where pod_hours.device_count < 1) as deviceless_count,
        count(*) filter (
            where pod_hours.tenant = '' or pod_hours.pod_uid = ''
        ) as nameless_count,
        count(*) filter (
            where
            pod_hours.weight_denominator < 1
            or pod_hours.weight_numerator < 0
            or pod_hours.weight_numerator > pod_hours.weight_denominator
        ) as impossible_weight_count,
        count(*) filter (where pod_hours.billable_seconds > 3600) as overlong_count
    from clusters
    left join pod_hours
        on
            clusters.billing_period = pod_hours.billing_period
            and clusters.cluster_id = pod_hours.cluster_id
    group by clusters.billing_period, clusters.cluster_id

)

select * from gate
