with

-- A node may be measured for a part of an hour; its cards are those of its fullest hour.
installed as (

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
    from installed
    where withdrawn_share_seconds > 0 and whole_hour > 0

),

numbered as (

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
from numbered
group by node_name, gpu_class, first_hour
order by hour_started_at, node_name, gpu_class
