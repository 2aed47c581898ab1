with

running_devices as (

    select *
    from {{ ref('int_device_use') }}
    where allocation_state = 'running'

),

capacity as (

    select * from {{ ref('int_node_class_capacity') }}

),

offers as (

    select * from {{ ref('int_node_offers') }}

),

-- In all other classes, each device is a card or an equal part of a card.
sliced_classes as (

    select node_class_number
    from running_devices
    where {{ is_slice() }}
    union
    select node_class_number
    from capacity
    where {{ is_slice() }}

),

geometries as (

    select
        gpu_class,
        max(mig_geometry) as mig_geometry
    from {{ ref('stg_devices__kinds') }}
    group by gpu_class

),

intervals as (

    select
        node_class_number,
        started_second,
        ended_second,
        'running' as quantity,
        mig_profile,
        replica_count,
        device_count as amount
    from running_devices
    where {{ is_slice() }}
    union all
    select
        node_class_number,
        started_second,
        ended_second,
        'running_cards' as quantity,
        '' as mig_profile,
        1 as replica_count,
        device_count as amount
    from running_devices
    where devices_per_card = 1
    union all
    select
        node_class_number,
        started_second,
        ended_second,
        'offered' as quantity,
        mig_profile,
        replica_count,
        capacity_count as amount
    from capacity
    where {{ is_slice() }}
    union all
    select
        node_class_number,
        started_second,
        ended_second,
        'allocatable' as quantity,
        mig_profile,
        replica_count,
        allocatable_count as amount
    from capacity
    where {{ is_slice() }}

),

-- Each interval changes the counts at its start and at its end.
ends as (

    select 1 as change
    union all
    select -1 as change

),

changes as (

    select
        intervals.node_class_number,
        case when ends.change = 1 then intervals.started_second else intervals.ended_second end
            as event_second,
        intervals.quantity,
        intervals.mig_profile,
        intervals.replica_count,
        ends.change * intervals.amount as change
    from intervals
    cross join ends
    union all
    select
        node_class_number,
        event_second,
        'running_cards' as quantity,
        '' as mig_profile,
        1 as replica_count,
        running_change as change
    from {{ ref('int_shared_card_changes') }}
    {% for quantity, offered in [
        ('offered_cards', 'capacity_cards'),
        ('allocatable_cards', 'allocatable_cards'),
        ('labelled_cards', 'labelled_cards'),
    ] %}
        union all
        select
            node_class_number,
            event_second,
            '{{ quantity }}' as quantity,
            '' as mig_profile,
            1 as replica_count,
            {{ offered }} - lag({{ offered }}, 1, 0) over (
                partition by node_class_number order by offer_number
            ) as change
        from offers
    {% endfor %}

),

events as (

    select
        changes.node_class_number,
        geometries.mig_geometry,
        changes.event_second,
        changes.quantity,
        changes.mig_profile,
        cast(changes.replica_count as bigint) as replica_count,
        cast(sum(changes.change) as bigint) as change
    from changes
    inner join sliced_classes
        on changes.node_class_number = sliced_classes.node_class_number
    inner join {{ ref('int_node_classes') }} as node_classes
        on changes.node_class_number = node_classes.node_class_number
    inner join geometries
        on node_classes.gpu_class = geometries.gpu_class
    group by
        changes.node_class_number,
        geometries.mig_geometry,
        changes.event_second,
        changes.quantity,
        changes.mig_profile,
        changes.replica_count
    having sum(changes.change) <> 0

)

select * from events
