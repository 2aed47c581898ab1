with

levels as (

    select * from {{ ref('int_node_card_levels') }}

),

class_levels as (

    select * from {{ ref('int_node_class_cards') }}

),

by_devices as (

    select
        node_number,
        hour_second,
        max(running_cards) as gpu_count_max,
        cast(sum(running_cards * (ended_second - started_second)) as bigint) as gpu_seconds
    from {{ ref('int_node_levels_by_devices') }}
    group by node_number, hour_second

),

sliced as (

    select node_number
    from {{ ref('int_sliced_nodes') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

-- Where no journal watched, a pod between two samples may be missing from the largest numbers.
unwatched as (

    select
        windows.cluster_id,
        measured.hour_second
    from windows
    inner join {{ ref('int_measured_hours') }} as measured
        on
            windows.cluster_id = measured.cluster_id
            and windows.window_started_second < measured.hour_second + 3600
            and measured.hour_second < windows.window_ended_second
    where not windows.expects_journal
    union
    select
        windows.cluster_id,
        holes.hour_second
    from windows
    inner join {{ ref('int_hour_holes') }} as holes
        on windows.window_number = holes.window_number
    where holes.source = 'kubernetes'

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

nodes as (

    select distinct
        node_number,
        cluster_id,
        node_name
    from {{ ref('int_node_classes') }}

),

offers as (

    select * from {{ ref('int_node_offer_hours') }}

),

hours as (

    select
        node_number,
        hour_second,
        max(running_cards) as gpu_count_max_bound,
        cast(sum(running_cards * (ended_second - started_second)) as bigint)
            as gpu_seconds_bound
    from levels
    group by node_number, hour_second

),

knowledge as (

    select
        node_number,
        hour_second,
        -- In the order of the words, the weaker ground comes last; nothing running needs none.
        coalesce(max(nullif(how_known, 'nothing')), 'nothing') as how_known,
        max(class_count) as class_count
    from class_levels
    group by node_number, hour_second

),

node_hours as (

    select
        parameters.billing_period,
        nodes.cluster_id,
        nodes.node_name,
        {{ instant('hours.hour_second') }} as hour_started_at,
        offers.installed_cards as gpu_capacity,
        offers.allocatable_cards as gpu_allocatable,
        coalesce(by_devices.gpu_count_max, hours.gpu_count_max_bound) as gpu_count_max,
        hours.gpu_count_max_bound,
        coalesce(by_devices.gpu_seconds, hours.gpu_seconds_bound) as gpu_seconds,
        case
            when hours.gpu_count_max_bound = 0 then 'nothing'
            when by_devices.node_number is not null or sliced.node_number is null
                then 'by_devices'
            else knowledge.how_known
        end as how_known,
        unwatched.cluster_id is not null as is_lower_bound,
        {{ whole_quotient('offers.unmeasured_class_seconds', 'knowledge.class_count') }}
            as unmeasured_seconds
    from hours
    inner join knowledge
        on
            hours.node_number = knowledge.node_number
            and hours.hour_second = knowledge.hour_second
    inner join offers
        on
            hours.node_number = offers.node_number
            and hours.hour_second = offers.hour_second
    inner join nodes
        on hours.node_number = nodes.node_number
    left join by_devices
        on
            hours.node_number = by_devices.node_number
            and hours.hour_second = by_devices.hour_second
    left join sliced
        on hours.node_number = sliced.node_number
    left join unwatched
        on
            nodes.cluster_id = unwatched.cluster_id
            and hours.hour_second = unwatched.hour_second
    cross join parameters

)

select * from node_hours
