with

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

slice_levels as (

    select * from {{ ref('int_slices_placed') }}

),

sliced_classes as (

    select distinct node_class_number
    from slice_levels

),

whole_cards as (

    select
        node_class_number,
        started_second,
        ended_second,
        device_count
    from {{ ref('int_device_use') }}
    where allocation_state = 'running' and devices_per_card = 1

),

card_changes as (

    select
        node_class_number,
        started_second as event_second,
        device_count as card_change
    from whole_cards
    union all
    select
        node_class_number,
        ended_second as event_second,
        -device_count as card_change
    from whole_cards
    union all
    select
        node_class_number,
        event_second,
        running_change as card_change
    from {{ ref('int_shared_card_changes') }}
    where running_change <> 0

),

-- In a class with MIG slices, the placement counts all cards, also cards without slices.
changes as (

    select
        node_classes.node_number,
        card_changes.event_second,
        card_changes.card_change as running_cards,
        0 as running_cut_cards
    from card_changes
    inner join node_classes
        on card_changes.node_class_number = node_classes.node_class_number
    left join sliced_classes
        on card_changes.node_class_number = sliced_classes.node_class_number
    where sliced_classes.node_class_number is null
    union all
    select
        node_classes.node_number,
        slice_levels.started_second as event_second,
        slice_levels.running_cards - lag(slice_levels.running_cards, 1, 0) over one_class
            as running_cards,
        slice_levels.running_cut_cards - lag(slice_levels.running_cut_cards, 1, 0) over one_class
            as running_cut_cards
    from slice_levels
    inner join node_classes
        on slice_levels.node_class_number = node_classes.node_class_number
    window
        one_class as (
            partition by slice_levels.node_class_number order by slice_levels.started_second
        )

),

hours as (

    select
        nodes.node_number,
        measured.hour_second,
        measured.measured_from_second,
        measured.measured_until_second
    from (
        select distinct
            node_number,
            cluster_id
        from node_classes
    ) as nodes
    inner join {{ ref('int_measured_hours') }} as measured
        on nodes.cluster_id = measured.cluster_id

),

levels as (

    {{ levels_by_hour(
        'changes', 'hours', ['node_number'], ['running_cards', 'running_cut_cards']
    ) }}

)

select
    node_number,
    hour_second,
    started_second,
    ended_second,
    running_cards,
    case
        when running_cut_cards > 0 then 'layouts'
        when running_cards > 0 then 'capacity'
        else 'nothing'
    end as how_known
from levels
