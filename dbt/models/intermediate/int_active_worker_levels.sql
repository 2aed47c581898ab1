with

ready_states as (

    select * from {{ ref('int_ready_nodes') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

events as (

    select
        cluster_id,
        started_second as event_second,
        1 as worker_change
    from ready_states
    union all
    select
        cluster_id,
        ended_second as event_second,
        -1 as worker_change
    from ready_states
    union all
    select
        cluster_id,
        measured_from_second as event_second,
        0 as worker_change
    from hours

),

instants as (

    select
        cluster_id,
        event_second,
        sum(worker_change) as worker_change
    from events
    group by cluster_id, event_second

),

levels as (

    select
        cluster_id,
        event_second,
        sum(worker_change) over (
            partition by cluster_id
            order by event_second
            rows between unbounded preceding and current row
        ) as active_workers
    from instants

),

bounded as (

    select
        levels.cluster_id,
        hours.hour_second,
        levels.event_second as started_second,
        cast(levels.active_workers as bigint) as active_workers
    from levels
    inner join hours
        on
            levels.cluster_id = hours.cluster_id
            and levels.event_second >= hours.measured_from_second
            and levels.event_second < hours.measured_until_second

)

select * from bounded
