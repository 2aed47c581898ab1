with

due_times as (

    select
        metrics_due.*,
        windows.sample_interval_seconds,
        row_number() over (
            order by metrics_due.window_number, metrics_due.metric, metrics_due.started_ms
        ) as due_number
    from {{ ref('int_metrics_due') }} as metrics_due
    inner join {{ ref('int_cluster_windows') }} as windows
        on metrics_due.window_number = windows.window_number

),

instants as (

    select * from {{ ref('int_sampled_instants') }}

),

-- A pod may request devices for an init container only.
sampled_times as (

    select
        cluster_id,
        case
            when metric = 'kube_pod_init_container_resource_requests'
                then 'kube_pod_container_resource_requests'
            else metric
        end as metric,
        first_sampled_ms,
        last_sampled_ms
    from instants

),

-- Samples outside the time in which they are due, and at its edges, as in `int_sampling_intervals`.
samples_near as (

    select
        due_times.due_number,
        sampled_times.first_sampled_ms,
        sampled_times.last_sampled_ms
    from due_times
    inner join sampled_times
        on
            due_times.cluster_id = sampled_times.cluster_id
            and due_times.metric = sampled_times.metric
            and due_times.started_ms - due_times.sample_interval_seconds * 1000
            <= sampled_times.last_sampled_ms
            and sampled_times.first_sampled_ms
            <= due_times.ended_ms + due_times.sample_interval_seconds * 1000
    union all
    select
        due_number,
        started_ms - sample_interval_seconds * 500 as first_sampled_ms,
        started_ms - sample_interval_seconds * 500 as last_sampled_ms
    from due_times
    union all
    select
        due_number,
        ended_ms + sample_interval_seconds * 500 as first_sampled_ms,
        ended_ms + sample_interval_seconds * 500 as last_sampled_ms
    from due_times

),

ordered_samples as (

    select
        *,
        max(last_sampled_ms) over (
            partition by due_number
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and 1 preceding
        ) as previous_sampled_ms
    from samples_near

),

-- A gap begins when the first of its missing samples was due.
gaps as (

    select
        due_times.window_number,
        due_times.cluster_id,
        due_times.metric,
        greatest(
            {{ whole_quotient('ordered_samples.previous_sampled_ms', 1000) }}
            + due_times.sample_interval_seconds,
            {{ whole_quotient('due_times.started_ms', 1000) }}
        ) as started_second,
        least(
            {{ whole_quotient('ordered_samples.first_sampled_ms', 1000) }},
            {{ whole_quotient('due_times.ended_ms', 1000) }}
        ) as ended_second
    from ordered_samples
    inner join due_times
        on ordered_samples.due_number = due_times.due_number
    where
        {{ is_gap(
            'ordered_samples.first_sampled_ms - ordered_samples.previous_sampled_ms',
            'due_times.sample_interval_seconds'
        ) }}

)

select *
from gaps
where started_second < ended_second
union all
select
    window_number,
    cluster_id,
    '' as metric,
    started_second,
    ended_second
from {{ ref('int_sampling_intervals') }}
where is_gap
