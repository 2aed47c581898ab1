with

levels as (

    select * from {{ ref('int_node_class_levels') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

-- On how few cards can these MIG instances lie: those that run, that can be allocated, that are
-- offered? Answered once per distinct question, between two runs of the models.
asked as (

    select
        node_class_number,
        running_code as wanted_code,
        offered_code,
        mig_card_count
    from levels
    where running_code > 0
    union
    select
        node_class_number,
        allocatable_code as wanted_code,
        offered_code,
        mig_card_count
    from levels
    where allocatable_code > 0
    union
    select
        node_class_number,
        offered_code as wanted_code,
        cast(0 as decimal(38, 0)) as offered_code,
        cast(-1 as bigint) as mig_card_count
    from levels
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
