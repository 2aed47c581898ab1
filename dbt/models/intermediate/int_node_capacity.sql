with

known_resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

listed_counts as (

    select
        resources.cluster_id,
        resources.node_name,
        known_resources.resource_key,
        resources.resource,
        resources.observed_second,
        max(resources.capacity_count) as capacity_count,
        max(resources.allocatable_count) as allocatable_count
    from {{ ref('stg_kubernetes__node_resources') }} as resources
    inner join attempts
        on
            resources.cluster_id = attempts.cluster_id
            and resources.attempt_id = attempts.attempt_id
    inner join known_resources
        on resources.resource = known_resources.resource
    group by
        resources.cluster_id,
        resources.node_name,
        known_resources.resource_key,
        resources.resource,
        resources.observed_second

),

node_observations as (

    select distinct
        nodes.cluster_id,
        nodes.node_name,
        nodes.observed_second
    from {{ ref('stg_kubernetes__nodes') }} as nodes
    inner join attempts
        on
            nodes.cluster_id = attempts.cluster_id
            and nodes.attempt_id = attempts.attempt_id

),

listed_resources as (

    select distinct
        cluster_id,
        node_name,
        resource_key,
        resource
    from listed_counts

),

-- A deleted node has no devices, and neither has a resource that the node no longer lists.
journal_counts as (

    select
        node_observations.cluster_id,
        node_observations.node_name,
        listed_resources.resource_key,
        listed_resources.resource,
        'kubernetes' as source,
        node_observations.observed_second,
        coalesce(listed_counts.capacity_count, 0) as capacity_count,
        coalesce(listed_counts.allocatable_count, 0) as allocatable_count
    from node_observations
    inner join listed_resources
        on
            node_observations.cluster_id = listed_resources.cluster_id
            and node_observations.node_name = listed_resources.node_name
    left join listed_counts
        on
            node_observations.cluster_id = listed_counts.cluster_id
            and node_observations.node_name = listed_counts.node_name
            and node_observations.observed_second = listed_counts.observed_second
            and listed_resources.resource = listed_counts.resource

),

series as (

    select distinct
        cluster_id,
        series_key,
        {{ label('labels', 'node') }} as node_name,
        {{ label('labels', 'resource') }} as resource
    from {{ ref('stg_thanos__series') }}
    where
        metric in ('kube_node_status_capacity', 'kube_node_status_allocatable')
        and label_invalid = ''

),

sampled_values as (

    select
        runs.cluster_id,
        series.node_name,
        known_resources.resource_key,
        min(series.resource) as resource,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as observed_second,
        max(case when runs.metric = 'kube_node_status_capacity' then runs.sample_quantity end)
            as capacity_count,
        max(case when runs.metric = 'kube_node_status_allocatable' then runs.sample_quantity end)
            as allocatable_count
    from {{ ref('int_sample_runs') }} as runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    inner join known_resources
        on series.resource = known_resources.resource
    where
        runs.metric in ('kube_node_status_capacity', 'kube_node_status_allocatable')
        and runs.sample_quantity is not null
    group by
        runs.cluster_id,
        series.node_name,
        known_resources.resource_key,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }}

),

sampled_counts as (

    select
        cluster_id,
        node_name,
        resource_key,
        resource,
        'thanos' as source,
        observed_second,
        coalesce(capacity_count, allocatable_count) as capacity_count,
        coalesce(allocatable_count, capacity_count) as allocatable_count
    from sampled_values

),

observations as (

    select * from journal_counts
    union all
    select
        cluster_id,
        node_name,
        resource_key,
        resource,
        'kubernetes' as source,
        observed_second,
        capacity_count,
        allocatable_count
    from {{ ref('int_sliced_devices') }}
    union all
    select * from sampled_counts

),

-- The journal is preferred: it has a change at its time, samples have it at the next scrape.
ranked_observations as (

    select
        *,
        min(source) over (partition by cluster_id, node_name) as best_source
    from observations

),

-- Partitioned by the name of the resource too: kube-state-metrics has one spelling for `1g.24gb.me`
-- and `1g.24gb-me`.
changes as (

    select
        *,
        lag(capacity_count) over (
            partition by cluster_id, node_name, resource order by observed_second
        ) as previous_capacity,
        lag(allocatable_count) over (
            partition by cluster_id, node_name, resource order by observed_second
        ) as previous_allocatable
    from ranked_observations
    where source = best_source

),

starts as (

    select *
    from changes
    where
        previous_capacity is null
        or previous_capacity <> capacity_count
        or previous_allocatable <> allocatable_count

),

-- Before its first observation, a resource has the counts of that observation.
resource_states as (

    select
        cluster_id,
        node_name,
        resource_key,
        resource,
        capacity_count,
        allocatable_count,
        case when previous_capacity is null then 0 else observed_second end as valid_from_second,
        coalesce(
            lead(observed_second) over (
                partition by cluster_id, node_name, resource order by observed_second
            ),
            {{ end_of_time() }}
        ) as valid_until_second
    from starts

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

-- The capacity of a node follows changes of its labels; the devices of a pod do not.
intervals as (

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

classified_intervals as (

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

select * from classified_intervals
