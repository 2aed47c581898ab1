with

source as (

    select * from {{ source('raw', 'kubernetes_node_resources') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        node_uid,
        node_name,
        {{ epoch_seconds('observed_at') }} as observed_second,
        resource,
        capacity as capacity_count,
        allocatable as allocatable_count
    from source

)

select * from renamed
