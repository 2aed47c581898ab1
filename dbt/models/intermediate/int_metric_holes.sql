with

holes as (

    select * from {{ ref('int_sample_holes') }}

),

instants as (

    select *
    from {{ ref('int_sampled_instants') }}
    where metric like 'kube_pod_%' and metric <> 'kube_pod_resource_request'

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

reached as (

    select
        windows.window_number,
        windows.sample_interval_seconds,
        instants.first_sampled_ms,
        instants.last_sampled_ms,
        max(instants.last_sampled_ms) over (
            partition by windows.window_number
            order by instants.first_sampled_ms, instants.last_sampled_ms
            rows between unbounded preceding and 1 preceding
        ) as previous_sampled_ms
    from instants
    inner join windows
        on instants.cluster_id = windows.cluster_id

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
            partition by window_number
            order by first_sampled_ms, last_sampled_ms
            rows between unbounded preceding and current row
        ) as island_number
    from reached

),

-- What is said about pods is due while anything is said about pods.
pods_sampled as (

    select
        window_number,
        {{ whole_quotient('min(first_sampled_ms)', 1000) }} as started_second,
        {{ whole_quotient('max(last_sampled_ms)', 1000) }} as ended_second
    from numbered
    group by window_number, island_number

),

due as (

    select
        holes.window_number,
        holes.cluster_id,
        holes.metric,
        holes.started_second,
        holes.ended_second
    from holes
    where holes.metric not like 'kube_pod_%'
    union all
    select
        holes.window_number,
        holes.cluster_id,
        holes.metric,
        greatest(holes.started_second, pods_sampled.started_second) as started_second,
        least(holes.ended_second, pods_sampled.ended_second) as ended_second
    from holes
    inner join pods_sampled
        on
            holes.window_number = pods_sampled.window_number
            and holes.started_second < pods_sampled.ended_second
            and pods_sampled.started_second < holes.ended_second
    where
        holes.metric in (
            'kube_pod_container_resource_requests', 'kube_pod_status_phase', 'kube_pod_info'
        )

)

select *
from due
where started_second < ended_second
