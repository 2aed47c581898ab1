with

source as (

    select * from {{ source('raw', 'kubernetes_node_observations') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('observed_at') }} as observed_second,
        journal_position,
        via as observed_via,
        node_uid,
        node_name,
        ready as is_ready,
        unschedulable as is_unschedulable,
        roles as node_roles,
        labels as node_labels,
        labels_sha256,
        deleted as is_deleted
    from source

)

select * from renamed
