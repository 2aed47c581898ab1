with

source as (

    select * from {{ source('raw', 'kubernetes_pod_observations') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        {{ epoch_seconds('observed_at') }} as observed_second,
        journal_position,
        via as observed_via,
        pod_uid,
        namespace,
        namespace_uid,
        pod_name,
        node_name,
        phase,
        {{ epoch_seconds('bound_at') }} as bound_second,
        {{ epoch_seconds('started_at') }} as started_second,
        {{ epoch_seconds('ended_at') }} as ended_second,
        deleted as is_deleted,
        restart_count,
        owner_kind,
        owner_name,
        workload_kind,
        workload_name,
        reason as pod_reason,
        labels as pod_labels
    from source

)

select * from renamed
