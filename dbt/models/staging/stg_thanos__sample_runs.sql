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
        {{ series_key('series_id') }} as series_key,
        {{ epoch_milliseconds('first_sampled_at') }} as first_sampled_ms,
        {{ epoch_milliseconds('last_sampled_at') }} as last_sampled_ms,
        sample_count,
        sample_value
    from source

)

select * from renamed
