with

quota_states as (

    select * from {{ ref('int_quota_states') }}

),

allocated as (

    select * from {{ ref('int_namespace_device_levels') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

resources as (

    select * from {{ ref('stg_devices__resources') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- Of several quotas of one namespace the smallest binds.
quota_hours as (

    select
        quota_states.cluster_id,
        quota_states.namespace,
        quota_states.resource,
        hours.hour_second,
        min(quota_states.hard_count) as hard_count,
        max(quota_states.used_count) as used_count
    from quota_states
    inner join hours
        on
            quota_states.cluster_id = hours.cluster_id
            and quota_states.started_second < hours.measured_until_second
            and hours.measured_from_second < quota_states.ended_second
    group by
        quota_states.cluster_id,
        quota_states.namespace,
        quota_states.resource,
        hours.hour_second

),

quotas as (

    select
        parameters.billing_period,
        quota_hours.namespace as tenant,
        quota_hours.cluster_id,
        quota_hours.resource,
        {{ instant('quota_hours.hour_second') }} as hour_started_at,
        quota_hours.hard_count,
        quota_hours.used_count,
        coalesce(allocated.allocated_count_max, 0) as allocated_count_max
    from quota_hours
    cross join parameters
    left join resources
        on quota_hours.resource = resources.resource
    left join allocated
        on
            quota_hours.cluster_id = allocated.cluster_id
            and quota_hours.namespace = allocated.namespace
            and resources.resource_key = allocated.resource_key
            and quota_hours.hour_second = allocated.hour_second

)

select * from quotas
