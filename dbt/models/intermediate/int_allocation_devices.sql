with

requests as (

    select * from {{ ref('stg_kubernetes__pod_requests') }}

),

attempts as (

    select distinct
        cluster_id,
        attempt_id
    from {{ ref('int_attempts_used') }}
    where source = 'kubernetes'

),

resources as (

    select *
    from {{ ref('stg_devices__resources') }}
    where is_gpu

),

lives as (

    select * from {{ ref('int_allocations_from_lifecycle') }}

),

sampled as (

    select * from {{ ref('int_sampled_requests') }}

),

owners as (

    select * from {{ ref('int_pod_owners') }}

),

label_states as (

    select
        *,
        min(source) over (partition by cluster_id, node_name) as best_source
    from {{ ref('int_node_label_states') }}

),

kinds as (

    select * from {{ ref('stg_devices__kinds') }}

),

journal as (

    select
        requests.cluster_id,
        requests.pod_uid,
        resources.resource_key,
        min(requests.resource) as resource,
        max(requests.device_count) as device_count
    from requests
    inner join attempts
        on
            requests.cluster_id = attempts.cluster_id
            and requests.attempt_id = attempts.attempt_id
    inner join resources
        on requests.resource = resources.resource
    where requests.device_count > 0
    group by requests.cluster_id, requests.pod_uid, resources.resource_key

),

-- What the journal knows about a pod is exact; samples fill in what it never saw.
paired as (

    select
        coalesce(journal.cluster_id, sampled.cluster_id) as cluster_id,
        coalesce(journal.pod_uid, sampled.pod_uid) as pod_uid,
        coalesce(journal.resource_key, sampled.resource_key) as resource_key,
        coalesce(journal.resource, sampled.resource) as resource,
        coalesce(journal.device_count, sampled.device_count) as device_count,
        journal.device_count as journal_device_count,
        sampled.device_count as sampled_device_count,
        sampled.namespace,
        sampled.pod_name,
        sampled.node_name,
        sampled.first_sampled_second
    from journal
    full outer join sampled
        on
            journal.cluster_id = sampled.cluster_id
            and journal.pod_uid = sampled.pod_uid
            and journal.resource_key = sampled.resource_key

),

named as (

    select
        paired.cluster_id,
        paired.pod_uid,
        paired.resource_key,
        paired.resource,
        paired.device_count,
        paired.journal_device_count,
        paired.sampled_device_count,
        coalesce(nullif(lives.namespace, ''), paired.namespace, '') as namespace,
        coalesce(nullif(lives.pod_name, ''), paired.pod_name, '') as pod_name,
        coalesce(nullif(lives.node_name, ''), paired.node_name, '') as node_name,
        coalesce(nullif(lives.workload_kind, ''), owners.workload_kind, 'Pod') as workload_kind,
        coalesce(
            nullif(lives.workload_name, ''),
            owners.workload_name,
            nullif(lives.pod_name, ''),
            paired.pod_name,
            ''
        ) as workload_name,
        coalesce(lives.bound_second, lives.started_second, paired.first_sampled_second, 0)
            as settled_second
    from paired
    left join lives
        on
            paired.cluster_id = lives.cluster_id
            and paired.pod_uid = lives.pod_uid
    left join owners
        on
            paired.cluster_id = owners.cluster_id
            and paired.pod_uid = owners.pod_uid

),

-- What a pod holds was settled when it was bound, by what its node was then.
settled as (

    select
        named.*,
        coalesce(label_states.labels_sha256, 'no labels') as labels_sha256
    from named
    left join label_states
        on
            named.cluster_id = label_states.cluster_id
            and named.node_name = label_states.node_name
            and label_states.source = label_states.best_source
            and label_states.valid_from_second <= named.settled_second
            and named.settled_second < label_states.valid_until_second

),

classified as (

    select
        settled.*,
        coalesce(kinds.device_kind, 'unclassified') as device_kind,
        coalesce(kinds.gpu_product, '') as gpu_product,
        coalesce(kinds.gpu_class, '') as gpu_class,
        coalesce(kinds.mig_profile, '') as mig_profile,
        coalesce(kinds.compute_share_numerator, 0) as compute_share_numerator,
        coalesce(kinds.compute_share_denominator, 1) as compute_share_denominator,
        coalesce(kinds.memory_share_numerator, 0) as memory_share_numerator,
        coalesce(kinds.memory_share_denominator, 1) as memory_share_denominator,
        coalesce(kinds.replica_count, 1) as replica_count,
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
