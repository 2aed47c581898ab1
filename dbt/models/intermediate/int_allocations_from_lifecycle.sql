with

observed as (

    select * from {{ ref('int_pods_observed') }}

),

pods as (

    select * from {{ ref('int_pods') }}

),

stretches as (

    select
        *,
        lead(started_second) over (partition by cluster_id order by started_second)
            as next_watched_second
    from {{ ref('int_watch_stretches') }}
    where is_watched

),

-- An ended pod never reopens: what is observed of it afterwards is a replay.
alive as (

    select
        pods.pod_number,
        observed.cluster_id,
        observed.bound_second,
        observed.started_second,
        observed.ended_second,
        observed.first_observed_second,
        observed.first_ended_second,
        case
            when observed.last_alive_second is not null
                then least(observed.last_alive_second, observed.first_ended_second)
        end as alive_second,
        least(
            coalesce(observed.last_alive_second, observed.first_observed_second),
            observed.first_ended_second
        ) as placed_second
    from observed
    inner join pods
        on
            observed.cluster_id = pods.cluster_id
            and observed.pod_uid = pods.pod_uid

),

placed as (

    select
        alive.*,
        stretches.ended_second as watched_until_second,
        stretches.next_watched_second
    from alive
    left join stretches
        on
            alive.cluster_id = stretches.cluster_id
            and stretches.started_second <= alive.placed_second
            and alive.placed_second < stretches.ended_second

),

-- A watch that was not broken would have told of an earlier end.
bounded as (

    select
        *,
        case
            when ended_second is not null
                then least(ended_second, first_ended_second)
            when alive_second is null then coalesce(started_second, first_ended_second)
            when first_ended_second <= watched_until_second then first_ended_second
            else coalesce(watched_until_second, alive_second)
        end as known_until_second,
        coalesce(first_ended_second, next_watched_second) as absent_by_second
    from placed

),

lives as (

    select
        pod_number,
        cluster_id,
        bound_second,
        -- The clock of a kubelet may be ahead of the API server's: no life is shorter than nothing.
        case when started_second is not null then least(started_second, known_until_second) end
            as started_second,
        known_until_second,
        case
            when
                ended_second is null
                and (first_ended_second is null or known_until_second < first_ended_second)
                then greatest(coalesce(absent_by_second, {{ end_of_time() }}), known_until_second)
            else known_until_second
        end as ended_by_second,
        first_observed_second
    from bounded

)

select * from lives
