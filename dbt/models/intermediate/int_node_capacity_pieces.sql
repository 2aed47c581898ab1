with

resource_states as (

    select * from {{ ref('int_node_resource_states') }}

),

label_states as (

    select * from {{ ref('int_node_label_states') }}

),

kinds as (

    select * from {{ ref('stg_devices__kinds') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- What a node offers follows its labels in time, unlike what a pod holds.
pieces as (

    select
        resource_states.cluster_id,
        resource_states.node_name,
        resource_states.resource_key,
        resource_states.resource,
        resource_states.capacity_count,
        resource_states.allocatable_count,
        coalesce(label_states.labels_sha256, 'no labels') as labels_sha256,
        greatest(
            resource_states.valid_from_second,
            coalesce(label_states.valid_from_second, 0),
            parameters.period_started_second
        ) as started_second,
        least(
            resource_states.valid_until_second,
            coalesce(label_states.valid_until_second, {{ end_of_time() }}),
            parameters.period_ended_second
        ) as ended_second
    from resource_states
    cross join parameters
    left join label_states
        on
            resource_states.cluster_id = label_states.cluster_id
            and resource_states.node_name = label_states.node_name
            and resource_states.valid_from_second < label_states.valid_until_second
            and label_states.valid_from_second < resource_states.valid_until_second

),

classified as (

    select
        pieces.cluster_id,
        pieces.node_name,
        pieces.resource_key,
        pieces.resource,
        pieces.labels_sha256,
        pieces.started_second,
        pieces.ended_second,
        pieces.capacity_count,
        pieces.allocatable_count,
        coalesce(kinds.device_kind, 'unclassified') as device_kind,
        coalesce(kinds.gpu_class, '') as gpu_class,
        coalesce(kinds.mig_profile, '') as mig_profile,
        coalesce(kinds.replica_count, 1) as replica_count,
        {{ devices_per_card(
            "coalesce(kinds.device_kind, 'unclassified')",
            'coalesce(kinds.compute_share_numerator, 0)',
            'coalesce(kinds.compute_share_denominator, 1)'
        ) }} as devices_per_card,
        coalesce(kinds.class_compute_unit, 1) as class_compute_unit,
        coalesce(kinds.class_memory_unit, 1) as class_memory_unit,
        coalesce(
            kinds.compute_share_numerator
            * {{ whole_quotient('kinds.class_compute_unit', 'kinds.compute_share_denominator') }},
            0
        ) as compute_units_each,
        coalesce(
            kinds.memory_share_numerator
            * {{ whole_quotient('kinds.class_memory_unit', 'kinds.memory_share_denominator') }},
            0
        ) as memory_units_each
    from pieces
    left join kinds
        on
            pieces.labels_sha256 = kinds.labels_sha256
            and pieces.resource = kinds.resource
    where pieces.started_second < pieces.ended_second

)

select * from classified
