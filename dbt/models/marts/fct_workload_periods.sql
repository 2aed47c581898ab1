with

pod_periods as (

    select * from {{ ref('fct_pod_periods') }}

),

workload_periods as (

    select
        billing_period,
        tenant,
        workload_kind,
        workload_name,
        gpu_class,
        mig_profile,
        currency,
        count(distinct pod_uid) as pod_count,
        cast(sum(running_device_seconds) as bigint) as running_device_seconds,
        cast(sum(held_device_seconds) as bigint) as held_device_seconds,
        cast(sum(billable_device_seconds) as bigint) as billable_device_seconds,
        cast(sum(cost_nanos) as decimal(38, 0)) as cost_nanos,
        cast(sum(last_hour_cost_nanos) as decimal(38, 0)) as last_hour_cost_nanos,
        cast(sum(last_day_cost_nanos) as decimal(38, 0)) as last_day_cost_nanos
    from pod_periods
    group by
        billing_period,
        tenant,
        workload_kind,
        workload_name,
        gpu_class,
        mig_profile,
        currency

)

select * from workload_periods
