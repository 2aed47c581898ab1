with

levels as (

    select * from {{ ref('int_node_class_levels') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

answers as (

    select * from {{ ref('stg_devices__card_answers') }}

),

answered as (

    select
        levels.*,
        node_classes.cluster_id,
        node_classes.node_name,
        node_classes.gpu_class,
        node_classes.class_compute_unit,
        node_classes.class_memory_unit,
        coalesce(running.fewest_card_count, 0) as running_mig_cards,
        coalesce(allocatable.fewest_card_count, 0) as allocatable_mig_cards,
        coalesce(offered.fewest_card_count, 0) as offered_mig_cards
    from levels
    inner join node_classes
        on levels.node_class_number = node_classes.node_class_number
    left join answers as running
        on
            node_classes.gpu_class = running.gpu_class
            and levels.running_code = running.wanted_code
            and levels.offered_code = running.offered_code
            and levels.mig_card_count = running.mig_card_count
    left join answers as allocatable
        on
            node_classes.gpu_class = allocatable.gpu_class
            and levels.allocatable_code = allocatable.wanted_code
            and levels.offered_code = allocatable.offered_code
            and levels.mig_card_count = allocatable.mig_card_count
    left join answers as offered
        on
            node_classes.gpu_class = offered.gpu_class
            and levels.offered_code = offered.wanted_code
            and offered.offered_code = 0
            and offered.mig_card_count = -1

),

-- Cards as labelled, unless what is offered proves that there are more.
counted as (

    select
        node_class_number,
        cluster_id,
        node_name,
        gpu_class,
        hour_second,
        started_second,
        ended_second,
        class_compute_unit,
        class_memory_unit,
        running_cards + running_mig_cards as running_cards,
        allocatable_cards + allocatable_mig_cards as allocatable_cards,
        greatest(labelled_cards, capacity_cards + offered_mig_cards) as installed_cards,
        capacity_cards + offered_mig_cards as offering_cards,
        case
            when running_code = 0 and running_cards = 0 then 'nothing'
            when running_code > 0 then 'layouts'
            else 'capacity'
        end as how_known,
        running_compute,
        running_memory,
        held_compute,
        held_memory,
        offered_compute,
        offered_memory,
        unhealthy_compute,
        unhealthy_memory,
        unmeasured
    from answered

)

select * from counted
