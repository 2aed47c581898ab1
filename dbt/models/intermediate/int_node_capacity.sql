with

resources as (

    select * from {{ ref('int_node_resources') }}

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

-- What a node offers follows its labels in time, unlike a pod's devices.
intervals as (

    select
        resources.cluster_id,
        resources.node_name,
        resources.resource_key,
        resources.resource,
        resources.capacity_count,
        resources.allocatable_count,
        coalesce(label_states.labels_sha256, 'no labels') as labels_sha256,
        greatest(
            resources.valid_from_second,
            coalesce(label_states.valid_from_second, 0),
            parameters.period_started_second
        ) as started_second,
        least(
            resources.valid_until_second,
            coalesce(label_states.valid_until_second, {{ end_of_time() }}),
            parameters.period_ended_second
        ) as ended_second
    from resources
    cross join parameters
    left join label_states
        on
            resources.cluster_id = label_states.cluster_id
            and resources.node_name = label_states.node_name
            and resources.valid_from_second < label_states.valid_until_second
            and label_states.valid_from_second < resources.valid_until_second

),

classified as (

    select
        intervals.cluster_id,
        intervals.node_name,
        intervals.resource_key,
        intervals.resource,
        intervals.labels_sha256,
        intervals.started_second,
        intervals.ended_second,
        intervals.capacity_count,
        intervals.allocatable_count,
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
    from intervals
    left join kinds
        on
            intervals.labels_sha256 = kinds.labels_sha256
            and intervals.resource = kinds.resource
    where intervals.started_second < intervals.ended_second

)

select * from classified
