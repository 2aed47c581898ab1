with

allocations as (

    select * from {{ ref('int_allocations') }}

),

label_states as (

    select * from {{ ref('int_node_label_states') }}

),

kinds as (

    select * from {{ ref('stg_devices__kinds') }}

),

-- What a pod holds was settled when it was bound, by what its node was then.
settled as (

    select
        allocations.*,
        coalesce(label_states.labels_sha256, 'no labels') as labels_sha256
    from allocations
    left join label_states
        on
            allocations.cluster_id = label_states.cluster_id
            and allocations.node_name = label_states.node_name
            and label_states.valid_from_second <= allocations.settled_second
            and allocations.settled_second < label_states.valid_until_second

),

classified as (

    select
        settled.*,
        coalesce(kinds.device_kind, 'unclassified') as device_kind,
        coalesce(kinds.gpu_product, '') as gpu_product,
        coalesce(kinds.gpu_class, '') as gpu_class,
        coalesce(kinds.mig_profile, '') as mig_profile,
        coalesce(kinds.replica_count, 1) as replica_count,
        coalesce(kinds.compute_share_numerator, 0) as compute_share_numerator,
        coalesce(kinds.compute_share_denominator, 1) as compute_share_denominator,
        coalesce(kinds.memory_share_numerator, 0) as memory_share_numerator,
        coalesce(kinds.memory_share_denominator, 1) as memory_share_denominator,
        coalesce(kinds.class_compute_unit, 1) as class_compute_unit,
        coalesce(kinds.class_memory_unit, 1) as class_memory_unit,
        coalesce(kinds.unclassified_reason, 'the resource was never classified')
            as unclassified_reason
    from settled
    left join kinds
        on
            settled.labels_sha256 = kinds.labels_sha256
            and settled.resource = kinds.resource

)

select * from classified
