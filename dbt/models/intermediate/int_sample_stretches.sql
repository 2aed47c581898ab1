with

windows as (

    select *
    from {{ ref('int_cluster_windows') }}
    where expects_samples

),

holes as (

    select *
    from {{ ref('int_sample_gaps') }}
    where metric = ''

),

-- Every hole begins a stretch, and so does its end and the window's start.
starts as (

    select
        window_number,
        window_started_second as started_second,
        0 as is_hole
    from windows
    union all
    select
        window_number,
        ended_second as started_second,
        0 as is_hole
    from holes
    union all
    select
        window_number,
        started_second,
        1 as is_hole
    from holes

),

stretch_starts as (

    select
        window_number,
        started_second,
        max(is_hole) as is_hole
    from starts
    group by window_number, started_second

),

tiled as (

    select
        stretch_starts.window_number,
        stretch_starts.started_second,
        coalesce(
            lead(stretch_starts.started_second) over (
                partition by stretch_starts.window_number order by stretch_starts.started_second
            ),
            windows.window_ended_second
        ) as ended_second,
        stretch_starts.is_hole = 1 as is_hole
    from stretch_starts
    inner join windows
        on stretch_starts.window_number = windows.window_number

)

select *
from tiled
where started_second < ended_second
