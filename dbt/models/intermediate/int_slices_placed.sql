with

-- All of a node class at once: a level depends on every change before it.
placed as (

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

each_level as (

    select
        node_class_number,
        {{ each_item('levels') }} as level
    from placed

)

select
    each_level.node_class_number,
    each_level.level.started_second,
    each_level.level.ended_second,
    each_level.level.running_cards,
    each_level.level.running_cut_cards,
    each_level.level.allocatable_cards,
    each_level.level.offering_cards,
    each_level.level.is_exact
from each_level
