with

priced as (

    select * from {{ ref('int_pod_hours_priced') }}

),

costs as (

    select * from {{ ref('int_pod_hours_apportioned') }}

),

devices as (

    select * from {{ ref('int_allocation_devices') }}

),

pod_hours as (

    select
        priced.billing_period,
        priced.cluster_id,
        {{ instant('priced.hour_second') }} as hour_started_at,
        priced.namespace as tenant,
        priced.belongs_to,
        priced.namespace,
        priced.pod_uid,
        devices.pod_name,
        devices.workload_kind,
        devices.workload_name,
        devices.node_name,
        devices.resource,
        priced.device_count,
        priced.gpu_class,
        priced.mig_profile,
        devices.device_kind,
        {{ instant('priced.started_second') }} as segment_started_at,
        {{ instant('priced.ended_second') }} as segment_ended_at,
        priced.allocation_state as state,
        priced.method,
        priced.method_reason,
        priced.treatment,
        cast(priced.running_seconds as bigint) as running_seconds,
        cast(priced.held_seconds as bigint) as held_seconds,
        cast(priced.billable_seconds as bigint) as billable_seconds,
        cast(priced.lifecycle_seconds as bigint) as lifecycle_seconds,
        cast(priced.sampled_seconds as bigint) as sampled_seconds,
        cast(priced.uncertainty_seconds as bigint) as uncertainty_seconds,
        cast(devices.compute_share_numerator as bigint) as compute_share_numerator,
        cast(devices.compute_share_denominator as bigint) as compute_share_denominator,
        cast(devices.memory_share_numerator as bigint) as memory_share_numerator,
        cast(devices.memory_share_denominator as bigint) as memory_share_denominator,
        cast(priced.weight_numerator as bigint) as weight_numerator,
        cast(priced.weight_denominator as bigint) as weight_denominator,
        priced.weight_policy,
        priced.rate_id,
        priced.currency,
        costs.cost_nanos
    from priced
    inner join costs
        on
            priced.cluster_id = costs.cluster_id
            and priced.pod_uid = costs.pod_uid
            and priced.resource_key = costs.resource_key
            and priced.started_second = costs.started_second
            and priced.ended_second = costs.ended_second
            and priced.allocation_state = costs.allocation_state
            and priced.method_reason = costs.method_reason
    inner join devices
        on
            priced.cluster_id = devices.cluster_id
            and priced.pod_uid = devices.pod_uid
            and priced.resource_key = devices.resource_key

)

select * from pod_hours
