with

levels as (

    select * from {{ ref('int_node_levels') }}

),

device_levels as (

    select
        node_number,
        hour_second,
        max(running_cards) as gpu_count_max,
        cast(sum(running_cards * (ended_second - started_second)) as bigint) as gpu_seconds
    from {{ ref('int_node_levels_by_devices') }}
    group by node_number, hour_second

),

sliced_nodes as (

    select node_number
    from {{ ref('int_sliced_nodes') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

-- In time without a journal, a pod between two samples may be missing from the largest numbers.
unwatched_hours as (

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
        hour_gaps.hour_second
    from windows
    inner join {{ ref('int_hour_gaps') }} as hour_gaps
        on windows.window_number = hour_gaps.window_number
    where hour_gaps.source = 'kubernetes'

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

nodes as (

    select distinct
        node_number,
        cluster_id,
        node_name,
        class_count
    from {{ ref('int_node_classes') }}

),

-- The capacity of a node, summed over its classes, with a row at the start of each hour.
offer_changes as (

    select
        node_number,
        started_second as event_second,
        installed_cards - lag(installed_cards, 1, 0) over classes as installed_cards,
        allocatable_cards - lag(allocatable_cards, 1, 0) over classes as allocatable_cards,
        least(unmeasured, 1) - lag(least(unmeasured, 1), 1, 0) over classes as unmeasured_classes
    from {{ ref('int_node_offer_cards') }}
    window
        classes as (partition by node_class_number order by offer_number)
    union all
    select
        nodes.node_number,
        measured.measured_from_second as event_second,
        0 as installed_cards,
        0 as allocatable_cards,
        0 as unmeasured_classes
    from nodes
    inner join {{ ref('int_measured_hours') }} as measured
        on nodes.cluster_id = measured.cluster_id

),

offer_instants as (

    select
        node_number,
        event_second,
        sum(installed_cards) as installed_cards,
        sum(allocatable_cards) as allocatable_cards,
        sum(unmeasured_classes) as unmeasured_classes
    from offer_changes
    group by node_number, event_second

),

offer_levels as (

    select
        node_number,
        event_second,
        lead(event_second) over so_far as next_second,
        cast(sum(installed_cards) over so_far as bigint) as installed_cards,
        cast(sum(allocatable_cards) over so_far as bigint) as allocatable_cards,
        cast(sum(unmeasured_classes) over so_far as bigint) as unmeasured_classes
    from offer_instants
    window so_far as (partition by node_number order by event_second)

),

offers as (

    select
        offer_levels.node_number,
        measured.hour_second,
        max(offer_levels.installed_cards) as installed_cards,
        max(offer_levels.allocatable_cards) as allocatable_cards,
        cast(
            sum(
                offer_levels.unmeasured_classes
                * (
                    least(
                        coalesce(offer_levels.next_second, measured.measured_until_second),
                        measured.measured_until_second
                    )
                    - offer_levels.event_second
                )
            )
            as bigint
        ) as unmeasured_class_seconds
    from offer_levels
    inner join nodes
        on offer_levels.node_number = nodes.node_number
    inner join {{ ref('int_measured_hours') }} as measured
        on
            nodes.cluster_id = measured.cluster_id
            and {{ whole_quotient('offer_levels.event_second', 3600) }} * 3600
            = measured.hour_second
    where
        offer_levels.event_second >= measured.measured_from_second
        and offer_levels.event_second < measured.measured_until_second
    group by offer_levels.node_number, measured.hour_second

),

hours as (

    select
        node_number,
        hour_second,
        max(running_cards) as gpu_count_max_bound,
        cast(sum(running_cards * (ended_second - started_second)) as bigint)
            as gpu_seconds_bound,
        {{ weakest_how_known('how_known') }} as how_known
    from levels
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
        coalesce(device_levels.gpu_count_max, hours.gpu_count_max_bound) as gpu_count_max,
        hours.gpu_count_max_bound,
        coalesce(device_levels.gpu_seconds, hours.gpu_seconds_bound) as gpu_seconds,
        case
            when hours.gpu_count_max_bound = 0 then 'nothing'
            when device_levels.node_number is not null or sliced_nodes.node_number is null
                then 'by_devices'
            else hours.how_known
        end as how_known,
        unwatched_hours.cluster_id is not null as is_lower_bound,
        {{ whole_quotient('offers.unmeasured_class_seconds', 'nodes.class_count') }}
            as unmeasured_seconds
    from hours
    inner join offers
        on
            hours.node_number = offers.node_number
            and hours.hour_second = offers.hour_second
    inner join nodes
        on hours.node_number = nodes.node_number
    left join device_levels
        on
            hours.node_number = device_levels.node_number
            and hours.hour_second = device_levels.hour_second
    left join sliced_nodes
        on hours.node_number = sliced_nodes.node_number
    left join unwatched_hours
        on
            nodes.cluster_id = unwatched_hours.cluster_id
            and hours.hour_second = unwatched_hours.hour_second
    cross join parameters

)

select * from node_hours
