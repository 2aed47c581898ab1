with

levels as (

    select
        *,
        ended_second - started_second as level_seconds
    from {{ ref('int_device_levels') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

class_hours as (

    select
        parameters.billing_period,
        levels.cluster_id,
        levels.node_name,
        levels.gpu_class,
        levels.mig_profile,
        {{ instant('levels.hour_second') }} as hour_started_at,
        max(levels.capacity_count) as device_capacity,
        max(levels.allocatable_count) as device_allocatable,
        max(levels.running_count) as device_count_max,
        cast(sum(levels.running_count * levels.level_seconds) as bigint) as running_device_seconds,
        cast(sum(levels.held_count * levels.level_seconds) as bigint) as held_device_seconds,
        cast(sum(levels.capacity_count * levels.level_seconds) as bigint)
            as capacity_device_seconds
    from levels
    cross join parameters
    group by
        parameters.billing_period,
        levels.cluster_id,
        levels.node_name,
        levels.gpu_class,
        levels.mig_profile,
        levels.hour_second

)

select * from class_hours
