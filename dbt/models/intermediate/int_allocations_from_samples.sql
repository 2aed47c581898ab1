with

sightings as (

    select
        *,
        lead(first_sampled_ms) over (
            partition by pod_number order by first_sampled_ms, last_sampled_ms
        ) as next_sampled_ms
    from {{ ref('int_pod_sightings') }}

),

pods as (

    select * from {{ ref('int_pods') }}

),

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples

),

-- A sample at the very end of a window belongs to what comes after it. Of two neighbours with that
-- end between them, both prove the time up to it.
measured as (

    select
        sightings.pod_number,
        windows.window_number,
        windows.sample_interval_seconds,
        greatest(sightings.first_sampled_ms, windows.window_started_second * 1000)
            as first_sampled_ms,
        case
            when
                sightings.next_sampled_ms >= windows.window_ended_second * 1000
                and not {{ is_hole(
                    'sightings.next_sampled_ms - sightings.last_sampled_ms',
                    'windows.sample_interval_seconds'
                ) }}
                then windows.window_ended_second * 1000
            else least(sightings.last_sampled_ms, windows.window_ended_second * 1000)
        end as last_sampled_ms
    from sightings
    inner join pods
        on sightings.pod_number = pods.pod_number
    inner join windows
        on
            pods.cluster_id = windows.cluster_id
            and sightings.first_sampled_ms < windows.window_ended_second * 1000
            and sightings.last_sampled_ms >= windows.window_started_second * 1000
    union all
    select
        pod_number,
        window_number,
        sample_interval_seconds,
        first_sampled_ms,
        last_sampled_ms
    from {{ ref('int_sightings_by_report') }}

),

reached as (

    select
        *,
        max(last_sampled_ms) over (
            partition by pod_number, window_number
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and 1 preceding
        ) as previous_sampled_ms
    from measured

),

numbered as (

    select
        *,
        sum(
            case
                when
                    {{ is_hole(
                        'first_sampled_ms - previous_sampled_ms', 'sample_interval_seconds'
                    ) }}
                    then 1
                else 0
            end
        ) over (
            partition by pod_number, window_number
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and current row
        ) as island_number
    from reached

),

islands as (

    select
        pod_number,
        window_number,
        {{ whole_quotient('min(first_sampled_ms)', 1000) }} as first_sampled_second,
        {{ whole_quotient('max(last_sampled_ms)', 1000) }} as last_sampled_second
    from numbered
    group by pod_number, window_number, island_number

)

select * from islands
