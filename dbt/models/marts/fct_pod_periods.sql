with

pod_hours as (

    select
        *,
        {{ epoch_seconds('hour_started_at') }} as hour_second
    from {{ ref('fct_pod_hours') }}

),

progress as (

    select * from {{ ref('int_period_progress') }}

),

pod_periods as (

    select
        pod_hours.billing_period,
        pod_hours.cluster_id,
        pod_hours.tenant,
        pod_hours.pod_uid,
        pod_hours.resource,
        max(pod_hours.pod_name) as pod_name,
        max(pod_hours.workload_kind) as workload_kind,
        max(pod_hours.workload_name) as workload_name,
        max(pod_hours.node_name) as node_name,
        max(pod_hours.device_count) as device_count,
        max(pod_hours.gpu_class) as gpu_class,
        max(pod_hours.mig_profile) as mig_profile,
        max(pod_hours.currency) as currency,
        min(pod_hours.segment_started_at) as first_started_at,
        max(pod_hours.segment_ended_at) as last_ended_at,
        cast(sum(pod_hours.running_seconds * pod_hours.device_count) as bigint)
            as running_device_seconds,
        cast(sum(pod_hours.held_seconds * pod_hours.device_count) as bigint)
            as held_device_seconds,
        cast(sum(pod_hours.billable_seconds * pod_hours.device_count) as bigint)
            as billable_device_seconds,
        cast(sum(pod_hours.uncertainty_seconds * pod_hours.device_count) as bigint)
            as uncertainty_device_seconds,
        cast(sum(pod_hours.cost_nanos) as decimal(38, 0)) as cost_nanos,
        cast(
            sum(
                case
                    when pod_hours.hour_second >= progress.counted_until_second - 3600
                        then pod_hours.cost_nanos
                    else 0
                end
            )
            as decimal(38, 0)
        ) as last_hour_cost_nanos,
        cast(
            sum(
                case
                    when pod_hours.hour_second >= progress.counted_until_second - 86400
                        then pod_hours.cost_nanos
                    else 0
                end
            )
            as decimal(38, 0)
        ) as last_day_cost_nanos
    from pod_hours
    cross join progress
    group by
        pod_hours.billing_period,
        pod_hours.cluster_id,
        pod_hours.tenant,
        pod_hours.pod_uid,
        pod_hours.resource

)

select * from pod_periods
