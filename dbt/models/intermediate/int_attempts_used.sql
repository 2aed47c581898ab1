with

attempts as (

    select * from {{ ref('stg_landing__attempts') }}

),

usable as (

    select
        *,
        outcome = 'ok' as is_complete
    from attempts
    where outcome in ('ok', 'warned', 'empty', 'degraded', 'truncated')

),

ranked as (

    select
        *,
        max(case when is_complete then 1 else 0 end)
            over (partition by cluster_id, source, hour_second) as complete_exists,
        row_number() over (
            partition by cluster_id, source, hour_second, is_complete
            order by attempt_sequence desc
        ) as recency
    from usable

),

-- The latest complete attempt; where there is none, all incomplete ones together.
used as (

    select *
    from ranked
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
from used
