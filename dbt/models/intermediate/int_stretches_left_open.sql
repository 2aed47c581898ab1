{{ config(materialized='ephemeral') }}

with

witnesses as (

    select *
    from {{ ref('int_pod_witnesses') }}
    where known_until_second < ended_by_second

),

sampled_spans as (

    select * from {{ ref('int_pod_sampled_spans') }}

),

-- The journal lost the end: the samples go on, or nothing does.
open_ends as (

    select
        witnesses.pod_number,
        witnesses.window_number,
        witnesses.known_until_second as started_second,
        greatest(
            least(
                coalesce(sampled_spans.ended_second, witnesses.known_until_second),
                witnesses.ended_by_second
            ),
            witnesses.known_until_second
        ) as ended_second,
        witnesses.ended_by_second,
        sampled_spans.ended_second + sampled_spans.uncertainty_after_seconds
            as unseen_from_second,
        -- The next sentinel came in time, and did not show the pod.
        coalesce(
            sampled_spans.uncertainty_after_seconds
            <= witnesses.sample_interval_seconds + witnesses.sample_delay_seconds + 1,
            false
        ) as is_seen_ended
    from witnesses
    left join sampled_spans
        on
            witnesses.pod_number = sampled_spans.pod_number
            and witnesses.window_number = sampled_spans.window_number

),

bounded as (

    select
        pod_number,
        window_number,
        case when is_seen_ended then 'sampled_end' else 'open_end' end as stretch_kind,
        started_second,
        ended_second,
        cast(0 as bigint) as uncertainty_before_seconds,
        greatest(
            least(ended_by_second, coalesce(unseen_from_second, ended_by_second)),
            ended_second
        )
        - ended_second as uncertainty_after_seconds
    from open_ends

)

select * from bounded
