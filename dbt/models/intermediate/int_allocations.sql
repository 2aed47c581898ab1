with

requests as (

    select * from {{ ref('int_requests') }}

),

journal as (

    select * from {{ ref('int_pods_from_journal') }}

),

label_states as (

    select * from {{ ref('int_node_label_states') }}

),

kinds as (

    select * from {{ ref('stg_devices__kinds') }}

),

owner_series as (

    select *
    from {{ ref('stg_thanos__series') }}
    where
        metric in ('kube_pod_owner', 'kube_replicaset_owner', 'kube_job_owner')
        and label_invalid = ''

),

owner_names as (

    select distinct
        cluster_id,
        metric,
        pod_uid,
        {{ label('labels', 'namespace') }} as namespace,
        {{ label('labels', 'owner_kind') }} as owner_kind,
        {{ label('labels', 'owner_name') }} as owner_name,
        case
            when metric = 'kube_replicaset_owner' then {{ label('labels', 'replicaset') }}
            else {{ label('labels', 'job_name') }}
        end as owned_name
    from owner_series
    where {{ label('labels', 'owner_kind') }} not in ('', '<none>')

),

owners as (

    select
        cluster_id,
        pod_uid,
        max(namespace) as namespace,
        max(owner_kind) as owner_kind,
        max(owner_name) as owner_name
    from owner_names
    where metric = 'kube_pod_owner'
    group by cluster_id, pod_uid

),

upper_owners as (

    select
        cluster_id,
        namespace,
        case when metric = 'kube_replicaset_owner' then 'ReplicaSet' else 'Job' end as owned_kind,
        owned_name,
        max(owner_kind) as owner_kind,
        max(owner_name) as owner_name
    from owner_names
    where metric <> 'kube_pod_owner'
    group by cluster_id, namespace, metric, owned_name

),

-- Samples have the owner of a pod, and the owner of a ReplicaSet or Job. The journal also has the
-- owners above them.
workloads as (

    select
        owners.cluster_id,
        owners.pod_uid,
        coalesce(upper_owners.owner_kind, owners.owner_kind) as workload_kind,
        coalesce(upper_owners.owner_name, owners.owner_name) as workload_name
    from owners
    left join upper_owners
        on
            owners.cluster_id = upper_owners.cluster_id
            and owners.namespace = upper_owners.namespace
            and owners.owner_kind = upper_owners.owned_kind
            and owners.owner_name = upper_owners.owned_name

),

allocations as (

    select
        row_number() over (
            order by
                requests.cluster_id,
                requests.pod_uid,
                requests.resource_key,
                requests.claim_uid
        ) as allocation_number,
        requests.cluster_id,
        requests.pod_uid,
        requests.resource_key,
        requests.resource,
        requests.device_count,
        requests.journal_device_count,
        requests.sampled_device_count,
        requests.claim_uid,
        coalesce(nullif(journal.namespace, ''), requests.namespace, '') as namespace,
        coalesce(nullif(journal.pod_name, ''), requests.pod_name, '') as pod_name,
        coalesce(nullif(journal.node_name, ''), requests.node_name, '') as node_name,
        coalesce(nullif(journal.workload_kind, ''), workloads.workload_kind, 'Pod')
            as workload_kind,
        coalesce(
            nullif(journal.workload_name, ''),
            workloads.workload_name,
            nullif(journal.pod_name, ''),
            requests.pod_name,
            ''
        ) as workload_name,
        coalesce(journal.bound_second, journal.started_second, requests.first_sampled_second, 0)
            as settled_second
    from requests
    left join journal
        on
            requests.cluster_id = journal.cluster_id
            and requests.pod_uid = journal.pod_uid
    left join workloads
        on
            requests.cluster_id = workloads.cluster_id
            and requests.pod_uid = workloads.pod_uid

),

-- The labels of the node at binding classify the pod's devices for its whole allocation.
labelled_allocations as (

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

classified_allocations as (

    select
        labelled_allocations.*,
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
    from labelled_allocations
    left join kinds
        on
            labelled_allocations.labels_sha256 = kinds.labels_sha256
            and labelled_allocations.resource = kinds.resource

)

select * from classified_allocations
