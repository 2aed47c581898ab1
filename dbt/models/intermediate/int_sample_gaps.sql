with

due as (

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

-- A pod may have devices in an init container alone.
sampled as (

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

-- Beyond the time in which samples are due, and at its edges, as in `int_sampling_intervals`.
near_due as (

    select
        due.due_number,
        sampled.first_sampled_ms,
        sampled.last_sampled_ms
    from due
    inner join sampled
        on
            due.cluster_id = sampled.cluster_id
            and due.metric = sampled.metric
            and due.started_ms - due.sample_interval_seconds * 1000 <= sampled.last_sampled_ms
            and sampled.first_sampled_ms <= due.ended_ms + due.sample_interval_seconds * 1000
    union all
    select
        due_number,
        started_ms - sample_interval_seconds * 500 as first_sampled_ms,
        started_ms - sample_interval_seconds * 500 as last_sampled_ms
    from due
    union all
    select
        due_number,
        ended_ms + sample_interval_seconds * 500 as first_sampled_ms,
        ended_ms + sample_interval_seconds * 500 as last_sampled_ms
    from due

),

reached as (

    select
        *,
        max(last_sampled_ms) over (
            partition by due_number
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and 1 preceding
        ) as previous_sampled_ms
    from near_due

),

-- A gap begins when the first of its missing samples was due.
gaps as (

    select
        due.window_number,
        due.cluster_id,
        due.metric,
        greatest(
            {{ whole_quotient('reached.previous_sampled_ms', 1000) }}
            + due.sample_interval_seconds,
            {{ whole_quotient('due.started_ms', 1000) }}
        ) as started_second,
        least(
            {{ whole_quotient('reached.first_sampled_ms', 1000) }},
            {{ whole_quotient('due.ended_ms', 1000) }}
        ) as ended_second
    from reached
    inner join due
        on reached.due_number = due.due_number
    where
        {{ is_gap(
            'reached.first_sampled_ms - reached.previous_sampled_ms',
            'due.sample_interval_seconds'
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
