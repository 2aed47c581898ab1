with

watches as (

    select * from {{ ref('stg_kubernetes__watches') }}

),

attempts as (

    select *
    from {{ ref('int_attempts_used') }}
    where source = 'kubernetes'

),

watch_times as (

    select distinct
        watches.cluster_id,
        watches.watched_from_second as started_second,
        watches.watched_until_second as ended_second
    from watches
    inner join attempts
        on
            watches.cluster_id = attempts.cluster_id
            and watches.attempt_id = attempts.attempt_id
            and watches.hour_second = attempts.hour_second
    where watches.watched_from_second < watches.watched_until_second

),

-- Adjoining watches are joined, because the watch of an hour ends where that of the next hour
-- begins.
joined_watches as (

    {{ joined_intervals(
        'watch_times', ['cluster_id'], 'started_second', 'ended_second', 'started_second > reached'
    ) }}

),

-- Before the first watch and between two watches, the cluster is not watched.
changes as (

    select
        cluster_id,
        started_second,
        1 as is_watched
    from joined_watches
    union all
    select
        cluster_id,
        ended_second as started_second,
        0 as is_watched
    from joined_watches
    union all
    select distinct
        cluster_id,
        0 as started_second,
        0 as is_watched
    from {{ ref('int_cluster_windows') }}

),

interval_starts as (

    select
        cluster_id,
        started_second,
        max(is_watched) as is_watched
    from changes
    group by cluster_id, started_second

),

intervals as (

    select
        cluster_id,
        started_second,
        coalesce(
            lead(started_second) over (partition by cluster_id order by started_second),
            {{ end_of_time() }}
        ) as ended_second,
        is_watched = 1 as is_watched
    from interval_starts

)

select *
from intervals
where started_second < ended_second
