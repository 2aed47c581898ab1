with

source as (

    select * from {{ source('raw', 'thanos_telemetry') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        metric,
        series_key,
        reading,
        sample_count,
        -- Readings never decide an amount. They have six decimals, so that no fact has a
        -- floating-point number.
        cast(average_value as decimal(38, 6)) as average_reading,
        cast(maximum_value as decimal(38, 6)) as maximum_reading
    from source

)

select * from renamed
