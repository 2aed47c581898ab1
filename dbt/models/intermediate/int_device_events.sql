{{ config(materialized='ephemeral') }}

with

used as (

    select * from {{ ref('int_device_spans') }}

),

offered as (

    select * from {{ ref('int_capacity_spans') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

spans as (

    select
        node_class_number,
        mig_profile,
        started_second,
        ended_second,
        case when allocation_state = 'running' then device_count else 0 end as running_count,
        case when allocation_state = 'held' then device_count else 0 end as held_count,
        0 as capacity_count,
        0 as allocatable_count
    from used
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
    from offered

),

profiles as (

    select distinct
        node_class_number,
        mig_profile
    from spans

),

-- Every span begins and ends: by how much each count changes then.
ends as (

    select 1 as change
    union all
    select -1 as change

),

events as (

    select
        spans.node_class_number,
        spans.mig_profile,
        case when ends.change = 1 then spans.started_second else spans.ended_second end
            as event_second,
        ends.change * spans.running_count as running_count,
        ends.change * spans.held_count as held_count,
        ends.change * spans.capacity_count as capacity_count,
        ends.change * spans.allocatable_count as allocatable_count
    from spans
    cross join ends
    union all
    -- A change of nothing at the start of every hour makes the level carried into it visible.
    select
        profiles.node_class_number,
        profiles.mig_profile,
        hours.measured_from_second as event_second,
        0 as running_count,
        0 as held_count,
        0 as capacity_count,
        0 as allocatable_count
    from profiles
    inner join node_classes
        on profiles.node_class_number = node_classes.node_class_number
    inner join hours
        on node_classes.cluster_id = hours.cluster_id

)

select * from events
