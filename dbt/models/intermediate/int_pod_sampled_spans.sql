with

bounded as (

    select * from {{ ref('int_pod_sampled_bounds') }}

),

reported as (

    select * from {{ ref('int_pod_reported_times') }}

),

timed as (

    select
        bounded.pod_number,
        bounded.window_number,
        greatest(
            coalesce(
                least(reported.container_started_second, bounded.first_sampled_second),
                bounded.first_sampled_second
            ),
            bounded.window_started_second
        ) as started_second,
        least(
            case
                when reported.completed_second >= bounded.last_sampled_second
                    then reported.completed_second
                else bounded.last_sampled_second
            end,
            bounded.window_ended_second
        ) as ended_second,
        greatest(bounded.unseen_until_second, bounded.window_started_second)
            as unseen_until_second,
        case
            when reported.completed_second >= bounded.last_sampled_second
                then
                    least(reported.completed_second, bounded.window_ended_second)
            else least(bounded.unseen_from_second, bounded.window_ended_second)
        end as unseen_from_second
    from bounded
    left join reported
        on bounded.pod_number = reported.pod_number

),

spans as (

    select
        pod_number,
        window_number,
        started_second,
        ended_second,
        greatest(started_second - unseen_until_second, 0) as uncertainty_before_seconds,
        greatest(unseen_from_second - ended_second, 0) as uncertainty_after_seconds
    from timed

)

select * from spans
