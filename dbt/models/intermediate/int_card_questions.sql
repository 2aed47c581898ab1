with

levels as (

    select * from {{ ref('int_mig_card_levels') }}

),

offers as (

    select * from {{ ref('int_node_offer_levels') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

-- On how few cards can these MIG instances lie: those that run, that can be allocated, that are
-- offered? Answered once per distinct question, between two runs of the models.
running as (

    select distinct
        node_class_number,
        offer_number,
        running_code as wanted_code
    from levels
    where running_code > 0

),

asked as (

    select
        running.node_class_number,
        running.wanted_code,
        offers.offered_code,
        offers.mig_card_count
    from running
    inner join offers
        on
            running.node_class_number = offers.node_class_number
            and running.offer_number = offers.offer_number
    union
    select
        node_class_number,
        allocatable_code as wanted_code,
        offered_code,
        mig_card_count
    from offers
    where allocatable_code > 0
    union
    select
        node_class_number,
        offered_code as wanted_code,
        cast(0 as decimal(38, 0)) as offered_code,
        cast(-1 as bigint) as mig_card_count
    from offers
    where offered_code > 0

),

questions as (

    select distinct
        node_classes.gpu_class,
        asked.wanted_code,
        asked.offered_code,
        asked.mig_card_count
    from asked
    inner join node_classes
        on asked.node_class_number = node_classes.node_class_number

)

select * from questions
