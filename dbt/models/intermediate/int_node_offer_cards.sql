with

offers as (

    select
        offers.*,
        coalesce(placed.allocatable_cards, offers.allocatable_cards) as cards_to_allocate,
        coalesce(placed.offering_cards, offers.capacity_cards) as cards_of_capacity
    from {{ ref('int_node_offers') }} as offers
    left join {{ ref('int_slices_placed') }} as placed
        on
            offers.node_class_number = placed.node_class_number
            and offers.event_second >= placed.started_second
            and offers.event_second < placed.ended_second

),

-- The capacity of a node may still have slices that were removed; they are not allocatable.
limited_offers as (

    select
        *,
        case when labelled_cards > 0 then labelled_cards else cards_of_capacity end
            as installed_cards,
        case when labelled_cards > 0 and cards_of_capacity > labelled_cards then 0 else 1 end
            as unhealthy_exist
    from offers

),

offer_cards as (

    select
        limited_offers.node_class_number,
        limited_offers.offer_number,
        limited_offers.event_second as started_second,
        node_classes.node_number,
        least(limited_offers.cards_to_allocate, limited_offers.installed_cards)
            as allocatable_cards,
        least(limited_offers.cards_of_capacity, limited_offers.installed_cards) as offering_cards,
        limited_offers.installed_cards,
        case limited_offers.unhealthy_exist
            when 1 then limited_offers.offered_compute
            else limited_offers.offered_compute - limited_offers.unhealthy_compute
        end as offered_compute,
        case limited_offers.unhealthy_exist
            when 1 then limited_offers.offered_memory
            else limited_offers.offered_memory - limited_offers.unhealthy_memory
        end as offered_memory,
        limited_offers.unhealthy_exist * limited_offers.unhealthy_compute as unhealthy_compute,
        limited_offers.unhealthy_exist * limited_offers.unhealthy_memory as unhealthy_memory,
        limited_offers.unmeasured
    from limited_offers
    inner join {{ ref('int_node_classes') }} as node_classes
        on limited_offers.node_class_number = node_classes.node_class_number

)

select * from offer_cards
