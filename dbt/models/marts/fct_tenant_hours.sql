with

pod_hours as (

    select * from {{ ref('fct_pod_hours') }}

),

tenant_hours as (

    select
        billing_period,
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        hour_started_at,
        currency,
        cast(sum(running_seconds * device_count) as bigint) as running_device_seconds,
        cast(sum(held_seconds * device_count) as bigint) as held_device_seconds,
        cast(sum(billable_seconds * device_count) as bigint) as billable_device_seconds,
        cast(sum(uncertainty_seconds * device_count) as bigint) as uncertainty_device_seconds,
        count(distinct pod_uid) as pod_count,
        cast(sum(cost_nanos) as decimal(38, 0)) as cost_nanos
    from pod_hours
    group by
        billing_period,
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        hour_started_at,
        currency

)

select * from tenant_hours
