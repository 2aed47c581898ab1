with

-- All changes of a node class together, because a level depends on all changes before it.
placements as (

    select
        node_class_number,
        place_slices(
            mig_geometry,
            {{ list_of_rows(
                ['event_second', 'quantity', 'mig_profile', 'replica_count', 'change']
            ) }}
        ) as levels
    from {{ ref('int_slice_events') }}
    group by node_class_number, mig_geometry

),

card_levels as (

    select
        node_class_number,
        {{ each_item('levels') }} as level
    from placements

)

select
    card_levels.node_class_number,
    card_levels.level.started_second,
    card_levels.level.ended_second,
    card_levels.level.running_cards,
    card_levels.level.running_cut_cards,
    card_levels.level.allocatable_cards,
    card_levels.level.offering_cards,
    card_levels.level.is_exact
from card_levels
