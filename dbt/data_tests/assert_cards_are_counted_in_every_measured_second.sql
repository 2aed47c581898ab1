-- A node class without a level would count no card in that time.
with

level_hours as (

    select
        node_number,
        hour_second,
        sum(ended_second - started_second) as counted_seconds
    from {{ ref('int_node_levels') }}
    group by node_number, hour_second

)

select
    nodes.node_number,
    hours.hour_second,
    level_hours.counted_seconds
from (
    select distinct
        node_number,
        cluster_id
    from {{ ref('int_node_classes') }}
) as nodes
inner join {{ ref('int_measured_hours') }} as hours
    on nodes.cluster_id = hours.cluster_id
left join level_hours
    on
        nodes.node_number = level_hours.node_number
        and hours.hour_second = level_hours.hour_second
where
    coalesce(level_hours.counted_seconds, 0)
    <> hours.measured_until_second - hours.measured_from_second
