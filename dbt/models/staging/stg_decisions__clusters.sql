with

source as (

    select * from {{ source('raw', 'clusters') }}

),

renamed as (

    select
        cluster_id,
        cluster_name,
        {{ epoch_seconds('valid_from') }} as valid_from_second,
        coalesce({{ epoch_seconds('valid_until') }}, {{ end_of_time() }}) as valid_until_second,
        expects_samples,
        expects_journal,
        sample_interval_seconds,
        scrape_interval_seconds,
        is_hub
    from source

)

select * from renamed
