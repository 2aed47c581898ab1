with

whole_levels as (

    select * from {{ ref('int_whole_card_levels') }}

),

mig_levels as (

    select * from {{ ref('int_mig_card_levels') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

offers as (

    select * from {{ ref('int_node_offer_cards') }}

),

answers as (

    select * from {{ ref('stg_devices__card_answers') }}

),

known as (

    select
        node_class_number,
        hour_second,
        started_second,
        ended_second,
        running_cards,
        case when running_cards > 0 then 'capacity' else 'nothing' end as how_known
    from whole_levels
    union all
    select
        mig_levels.node_class_number,
        mig_levels.hour_second,
        mig_levels.started_second,
        mig_levels.ended_second,
        mig_levels.running_cards + coalesce(answers.fewest_card_count, 0) as running_cards,
        case
            when mig_levels.running_code > 0 then 'layouts'
            when mig_levels.running_cards > 0 then 'capacity'
            else 'nothing'
        end as how_known
    from mig_levels
    inner join offers
        on
            mig_levels.node_class_number = offers.node_class_number
            and mig_levels.offer_number = offers.offer_number
    left join answers
        on
            mig_levels.running_code = answers.wanted_code
            and offers.gpu_class = answers.gpu_class
            and offers.offered_code = answers.offered_code
            and offers.mig_card_count = answers.mig_card_count

),

counted as (

    select
        known.*,
        node_classes.node_number,
        node_classes.class_count
    from known
    inner join node_classes
        on known.node_class_number = node_classes.node_class_number

)

select * from counted
