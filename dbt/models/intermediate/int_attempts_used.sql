with

attempts as (

    select * from {{ ref('stg_landing__attempts') }}

),

usable_attempts as (

    select
        *,
        outcome = 'ok' as is_complete
    from attempts
    where outcome in ('ok', 'warned', 'empty', 'degraded', 'truncated')

),

ranked_attempts as (

    select
        *,
        max(case when is_complete then 1 else 0 end)
            over (partition by cluster_id, source, hour_second) as complete_exists,
        row_number() over (
            partition by cluster_id, source, hour_second, is_complete
            order by attempt_sequence desc
        ) as recency
    from usable_attempts

),

-- The latest complete attempt of the hour; without one, all incomplete attempts together.
used_attempts as (

    select *
    from ranked_attempts
    where
        (complete_exists = 1 and is_complete and recency = 1)
        or complete_exists = 0

)

select
    cluster_id,
    source,
    hour_second,
    attempt_id,
    attempt_sequence,
    is_complete,
    sample_interval_seconds,
    scrape_interval_seconds
from used_attempts
