with

offers as (

    select * from {{ ref('int_node_offer_levels') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

answers as (

    select * from {{ ref('stg_devices__card_answers') }}

),

-- Cards as labelled, unless what is offered proves that there are more.
counted as (

    select
        offers.node_class_number,
        offers.offer_number,
        offers.event_second as started_second,
        node_classes.node_number,
        node_classes.gpu_class,
        offers.offered_code,
        offers.mig_card_count,
        offers.allocatable_cards + coalesce(allocatable.fewest_card_count, 0)
            as allocatable_cards,
        offers.capacity_cards + coalesce(offered.fewest_card_count, 0) as offering_cards,
        greatest(
            offers.labelled_cards,
            offers.capacity_cards + coalesce(offered.fewest_card_count, 0)
        ) as installed_cards,
        offers.offered_compute,
        offers.offered_memory,
        offers.unhealthy_compute,
        offers.unhealthy_memory,
        offers.unmeasured
    from offers
    inner join node_classes
        on offers.node_class_number = node_classes.node_class_number
    left join answers as allocatable
        on
            node_classes.gpu_class = allocatable.gpu_class
            and offers.allocatable_code = allocatable.wanted_code
            and offers.offered_code = allocatable.offered_code
            and offers.mig_card_count = allocatable.mig_card_count
    left join answers as offered
        on
            node_classes.gpu_class = offered.gpu_class
            and offers.offered_code = offered.wanted_code
            and offered.offered_code = 0
            and offered.mig_card_count = -1

)

select * from counted
