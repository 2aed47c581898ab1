with

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

intervals as (

    select
        node_class_number,
        mig_profile,
        started_second,
        ended_second,
        case when allocation_state = 'running' then device_count else 0 end as running_count,
        case when allocation_state = 'held' then device_count else 0 end as held_count,
        0 as capacity_count,
        0 as allocatable_count
    from {{ ref('int_device_use') }}
    union all
    select
        node_class_number,
        mig_profile,
        started_second,
        ended_second,
        0 as running_count,
        0 as held_count,
        capacity_count,
        allocatable_count
    from {{ ref('int_node_class_capacity') }}

),

-- Each interval changes the counts at its start and, by the same number, at its end.
changes as (

    select
        node_class_number,
        mig_profile,
        started_second as event_second,
        running_count,
        held_count,
        capacity_count,
        allocatable_count
    from intervals
    union all
    select
        node_class_number,
        mig_profile,
        ended_second as event_second,
        -running_count as running_count,
        -held_count as held_count,
        -capacity_count as capacity_count,
        -allocatable_count as allocatable_count
    from intervals

),

hours as (

    select
        profiles.node_class_number,
        profiles.mig_profile,
        measured.hour_second,
        measured.measured_from_second,
        measured.measured_until_second
    from (
        select distinct
            node_class_number,
            mig_profile
        from intervals
    ) as profiles
    inner join node_classes
        on profiles.node_class_number = node_classes.node_class_number
    inner join {{ ref('int_measured_hours') }} as measured
        on node_classes.cluster_id = measured.cluster_id

),

levels as (

    {{ levels_by_hour(
        'changes', 'hours', ['node_class_number', 'mig_profile'],
        ['running_count', 'held_count', 'capacity_count', 'allocatable_count']
    ) }}

)

select
    node_classes.cluster_id,
    node_classes.node_name,
    node_classes.gpu_class,
    levels.mig_profile,
    levels.hour_second,
    levels.started_second,
    levels.ended_second,
    levels.running_count,
    levels.held_count,
    levels.capacity_count,
    levels.allocatable_count
from levels
inner join node_classes
    on levels.node_class_number = node_classes.node_class_number
