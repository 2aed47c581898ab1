with

source as (

    select * from {{ source('raw', 'thanos_runs') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        metric,
        series_key,
        {{ epoch_milliseconds('hour_started_at') }} + first_offset_ms as first_sampled_ms,
        {{ epoch_milliseconds('hour_started_at') }} + last_offset_ms as last_sampled_ms,
        sample_count,
        sample_value
    from source

)

select * from renamed
