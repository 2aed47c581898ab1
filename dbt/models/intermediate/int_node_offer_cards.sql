with

offers as (

    select * from {{ ref('int_node_offers') }}

),

-- Cards as labelled, unless what is offered proves that there are more.
counted as (

    select
        offers.node_class_number,
        offers.offer_number,
        offers.event_second as started_second,
        node_classes.node_number,
        coalesce(placed.allocatable_cards, offers.allocatable_cards) as allocatable_cards,
        coalesce(placed.offering_cards, offers.capacity_cards) as offering_cards,
        greatest(
            offers.labelled_cards, coalesce(placed.offering_cards, offers.capacity_cards)
        ) as installed_cards,
        offers.offered_compute,
        offers.offered_memory,
        offers.unhealthy_compute,
        offers.unhealthy_memory,
        offers.unmeasured
    from offers
    inner join {{ ref('int_node_classes') }} as node_classes
        on offers.node_class_number = node_classes.node_class_number
    left join {{ ref('int_slices_placed') }} as placed
        on
            offers.node_class_number = placed.node_class_number
            and offers.event_second >= placed.started_second
            and offers.event_second < placed.ended_second

)

select * from counted
