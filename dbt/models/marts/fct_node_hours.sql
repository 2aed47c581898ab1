with

levels as (

    select * from {{ ref('int_node_card_levels') }}

),

class_levels as (

    select * from {{ ref('int_node_class_cards') }}

),

by_devices as (

    select * from {{ ref('int_node_hours_by_devices') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

hours as (

    select
        cluster_id,
        node_name,
        hour_second,
        max(installed_cards) as gpu_capacity,
        max(allocatable_cards) as gpu_allocatable,
        max(running_cards) as gpu_count_max,
        cast(sum(running_cards * (ended_second - started_second)) as bigint) as gpu_seconds
    from levels
    group by cluster_id, node_name, hour_second

),

knowledge as (

    select
        cluster_id,
        node_name,
        hour_second,
        -- In the order of the words, the weaker ground comes last; nothing running needs none.
        coalesce(max(nullif(how_known, 'nothing')), 'nothing') as how_known,
        cast(
            sum(case when unmeasured > 0 then ended_second - started_second else 0 end) as bigint
        ) as unmeasured_class_seconds,
        count(distinct node_class_number) as class_count
    from class_levels
    group by cluster_id, node_name, hour_second

),

node_hours as (

    select
        parameters.billing_period,
        hours.cluster_id,
        hours.node_name,
        {{ instant('hours.hour_second') }} as hour_started_at,
        hours.gpu_capacity,
        hours.gpu_allocatable,
        hours.gpu_count_max,
        case when hours.gpu_count_max = 0 then cast(0 as bigint) else by_devices.gpu_count_max end
            as gpu_count_max_by_devices,
        hours.gpu_seconds,
        knowledge.how_known,
        {{ whole_quotient('knowledge.unmeasured_class_seconds', 'knowledge.class_count') }}
            as unmeasured_seconds
    from hours
    inner join knowledge
        on
            hours.cluster_id = knowledge.cluster_id
            and hours.node_name = knowledge.node_name
            and hours.hour_second = knowledge.hour_second
    left join by_devices
        on
            hours.cluster_id = by_devices.cluster_id
            and hours.node_name = by_devices.node_name
            and hours.hour_second = by_devices.hour_second
    cross join parameters

)

select * from node_hours
