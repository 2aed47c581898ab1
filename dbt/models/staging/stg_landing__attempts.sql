with

source as (

    select * from {{ source('raw', 'attempts') }}

),

renamed as (

    select
        cluster_id,
        source,
        attempt_id,
        sequence as attempt_sequence,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        {{ epoch_seconds('asked_at') }} as asked_second,
        {{ epoch_seconds('answered_at') }} as answered_second,
        outcome,
        reason as outcome_reason,
        series_count,
        sample_count,
        warning_count,
        answer_sha256s,
        sample_interval_seconds,
        scrape_interval_seconds
    from source

)

select * from renamed
