with

source as (

    select * from {{ source('raw', 'kubernetes_journal_gaps') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('gap_started_at') }} as gap_started_second,
        {{ epoch_seconds('gap_ended_at') }} as gap_ended_second,
        reason as gap_reason
    from source

)

select * from renamed
