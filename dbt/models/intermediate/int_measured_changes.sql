{{ config(materialized='ephemeral') }}

with

hours as (

    select
        *,
        lag(measured_until_second) over (
            partition by cluster_id order by hour_second
        ) as previous_until_second,
        lead(measured_from_second) over (
            partition by cluster_id order by hour_second
        ) as next_from_second
    from {{ ref('int_measured_hours') }}

),

changes as (

    select
        cluster_id,
        measured_from_second as event_second,
        case when previous_until_second = measured_from_second then 0 else 1 end as measured_change
    from hours
    union all
    select
        cluster_id,
        measured_until_second as event_second,
        -1 as measured_change
    from hours
    where next_from_second is null or next_from_second <> measured_until_second

)

select * from changes
