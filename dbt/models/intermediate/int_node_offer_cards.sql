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

-- A node may still list slices that were removed: as capacity, none of which can be allocated.
limited as (

    select
        *,
        case when labelled_cards > 0 then labelled_cards else cards_of_capacity end
            as installed_cards,
        case when labelled_cards > 0 and cards_of_capacity > labelled_cards then 0 else 1 end
            as unhealthy_exist
    from offers

),

counted as (

    select
        limited.node_class_number,
        limited.offer_number,
        limited.event_second as started_second,
        node_classes.node_number,
        least(limited.cards_to_allocate, limited.installed_cards) as allocatable_cards,
        least(limited.cards_of_capacity, limited.installed_cards) as offering_cards,
        limited.installed_cards,
        case limited.unhealthy_exist
            when 1 then limited.offered_compute
            else limited.offered_compute - limited.unhealthy_compute
        end as offered_compute,
        case limited.unhealthy_exist
            when 1 then limited.offered_memory
            else limited.offered_memory - limited.unhealthy_memory
        end as offered_memory,
        limited.unhealthy_exist * limited.unhealthy_compute as unhealthy_compute,
        limited.unhealthy_exist * limited.unhealthy_memory as unhealthy_memory,
        limited.unmeasured
    from limited
    inner join {{ ref('int_node_classes') }} as node_classes
        on limited.node_class_number = node_classes.node_class_number

)

select * from counted
