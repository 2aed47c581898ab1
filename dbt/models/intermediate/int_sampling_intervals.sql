with

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples

),

-- All metrics of kube-state-metrics together. The scheduler is another target, which may be up
-- while kube-state-metrics is down.
instants as (

    select *
    from {{ ref('int_sampled_instants') }}
    where metric not in ('up', 'kube_pod_resource_request')

),

-- Samples up to one sampling interval outside the window count as neighbours. Half an interval
-- outside the window, an edge counts as a sample too, so that the first sample is late if another
-- sample was due before it inside the window.
samples as (

    select
        windows.window_number,
        instants.first_sampled_ms,
        instants.last_sampled_ms
    from windows
    inner join instants
        on
            windows.cluster_id = instants.cluster_id
            and (windows.window_started_second - windows.sample_interval_seconds) * 1000
            <= instants.last_sampled_ms
            and instants.first_sampled_ms
            <= (windows.window_ended_second + windows.sample_interval_seconds) * 1000
    union all
    select
        window_number,
        window_started_second * 1000 - sample_interval_seconds * 500 as first_sampled_ms,
        window_started_second * 1000 - sample_interval_seconds * 500 as last_sampled_ms
    from windows
    union all
    select
        window_number,
        window_ended_second * 1000 + sample_interval_seconds * 500 as first_sampled_ms,
        window_ended_second * 1000 + sample_interval_seconds * 500 as last_sampled_ms
    from windows

),

ordered_samples as (

    select
        *,
        max(last_sampled_ms) over (
            partition by window_number
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and 1 preceding
        ) as previous_sampled_ms
    from samples

),

-- A gap begins when the first of its missing samples was due.
gaps as (

    select
        windows.window_number,
        greatest(
            {{ whole_quotient('ordered_samples.previous_sampled_ms', 1000) }}
            + windows.sample_interval_seconds,
            windows.window_started_second
        ) as started_second,
        least(
            {{ whole_quotient('ordered_samples.first_sampled_ms', 1000) }},
            windows.window_ended_second
        ) as ended_second
    from ordered_samples
    inner join windows
        on ordered_samples.window_number = windows.window_number
    where
        {{ is_gap(
            'ordered_samples.first_sampled_ms - ordered_samples.previous_sampled_ms',
            'windows.sample_interval_seconds'
        ) }}

),

-- An interval begins at the start of the window, and at the start and the end of each gap.
starts as (

    select
        window_number,
        window_started_second as started_second,
        0 as is_gap
    from windows
    union all
    select
        window_number,
        ended_second as started_second,
        0 as is_gap
    from gaps
    where started_second < ended_second
    union all
    select
        window_number,
        started_second,
        1 as is_gap
    from gaps
    where started_second < ended_second

),

interval_starts as (

    select
        window_number,
        started_second,
        max(is_gap) as is_gap
    from starts
    group by window_number, started_second

),

intervals as (

    select
        interval_starts.window_number,
        windows.cluster_id,
        interval_starts.started_second,
        coalesce(
            lead(interval_starts.started_second) over (
                partition by interval_starts.window_number order by interval_starts.started_second
            ),
            windows.window_ended_second
        ) as ended_second,
        interval_starts.is_gap = 1 as is_gap
    from interval_starts
    inner join windows
        on interval_starts.window_number = windows.window_number

)

select *
from intervals
where started_second < ended_second
