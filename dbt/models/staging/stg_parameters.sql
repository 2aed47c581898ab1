with

source as (

    select * from {{ source('raw', 'parameters') }}

),

renamed as (

    select
        billing_period,
        {{ epoch_seconds('period_started_at') }} as period_started_second,
        {{ epoch_seconds('period_ended_at') }} as period_ended_second,
        currency,
        decisions_sha256
    from source

)

select * from renamed
