with

busy as (

    select * from {{ ref('int_card_hours') }}

),

nodes as (

    select distinct
        node_number,
        cluster_id
    from {{ ref('int_node_classes') }}

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

known as (

    select
        busy.node_number,
        busy.hour_second,
        max(hours.measured_from_second) as measured_from_second,
        max(hours.measured_until_second) as measured_until_second
    from busy
    inner join nodes
        on busy.node_number = nodes.node_number
    inner join hours
        on
            nodes.cluster_id = hours.cluster_id
            and busy.hour_second = hours.hour_second
    group by busy.node_number, busy.hour_second
    having bool_and(busy.is_known)

),

-- Every hour stands alone: what runs on is counted from its start.
events as (

    select
        node_number,
        hour_second,
        started_second as event_second,
        card_count as card_change
    from busy
    union all
    select
        node_number,
        hour_second,
        ended_second as event_second,
        -card_count as card_change
    from busy
    union all
    select
        node_number,
        hour_second,
        measured_from_second as event_second,
        0 as card_change
    from known

),

-- What ends and what begins at one second do not overlap.
instants as (

    select
        node_number,
        hour_second,
        event_second,
        sum(card_change) as card_change
    from events
    group by node_number, hour_second, event_second

),

levels as (

    select
        instants.node_number,
        instants.hour_second,
        instants.event_second as started_second,
        coalesce(lead(instants.event_second) over so_far, known.measured_until_second)
            as ended_second,
        cast(sum(instants.card_change) over so_far as bigint) as running_cards
    from instants
    inner join known
        on
            instants.node_number = known.node_number
            and instants.hour_second = known.hour_second
    window
        so_far as (
            partition by instants.node_number, instants.hour_second
            order by instants.event_second
        )

)

select *
from levels
where started_second < ended_second
