{{ config(materialized='ephemeral') }}

with

offers as (

    select * from {{ ref('int_node_offer_cards') }}

),

nodes as (

    select distinct
        node_number,
        cluster_id
    from {{ ref('int_node_classes') }}

),

events as (

    select
        node_number,
        started_second as event_second,
        cast(0 as bigint) as packed_change,
        installed_cards - lag(installed_cards, 1, 0) over classes as installed_cards,
        allocatable_cards - lag(allocatable_cards, 1, 0) over classes as allocatable_cards,
        least(unmeasured, 1) - lag(least(unmeasured, 1), 1, 0) over classes as unmeasured_classes
    from offers
    window
        classes as (partition by node_class_number order by offer_number)
    union all
    select
        nodes.node_number,
        changes.event_second,
        {{ packed(measured='changes.measured_change') }} as packed_change,
        0 as installed_cards,
        0 as allocatable_cards,
        0 as unmeasured_classes
    from nodes
    inner join {{ ref('int_measured_changes') }} as changes
        on nodes.cluster_id = changes.cluster_id

),

levels as (

    select
        node_number,
        event_second,
        lead(event_second) over (partition by node_number order by event_second) as next_second,
        cast(sum(packed_change) over so_far as bigint) as packed_level,
        cast(sum(installed_cards) over so_far as bigint) as installed_cards,
        cast(sum(allocatable_cards) over so_far as bigint) as allocatable_cards,
        cast(sum(unmeasured_classes) over so_far as bigint) as unmeasured_classes
    from events
    window
        so_far as (
            partition by node_number
            order by event_second
            range between unbounded preceding and current row
        )

),

hours as (

    select
        node_number,
        {{ whole_quotient('event_second', 3600) }} * 3600 as hour_second,
        max(installed_cards) as installed_cards,
        max(allocatable_cards) as allocatable_cards,
        cast(sum(unmeasured_classes * (next_second - event_second)) as bigint)
            as unmeasured_class_seconds
    from levels
    where event_second < next_second and {{ packed_is_measured('packed_level') }}
    group by node_number, hour_second

)

select * from hours
