with

-- A node may be measured only for a part of an hour: its installed cards are the most of any hour.
installed_cards as (

    select
        node_name,
        gpu_class,
        hour_started_at,
        withdrawn_share_seconds,
        max(installed_share_seconds) over (partition by node_name, gpu_class) as whole_hour
    from fct_node_share_hours
    where cluster_id = $cluster_id and dimension = 'compute'

),

hours as (

    select
        node_name,
        gpu_class,
        hour_started_at,
        3600 * withdrawn_share_seconds // whole_hour as withdrawn_seconds
    from installed_cards
    where withdrawn_share_seconds > 0 and whole_hour > 0

),

numbered_hours as (

    select
        *,
        hour_started_at - interval 1 hour * row_number() over (
            partition by node_name, gpu_class
            order by hour_started_at
        ) as first_hour
    from hours

)

select
    node_name,
    gpu_class,
    min(hour_started_at) as hour_started_at,
    sum(withdrawn_seconds) as withdrawn_seconds
from numbered_hours
group by node_name, gpu_class, first_hour
order by hour_started_at, node_name, gpu_class
