with

series as (

    select * from {{ ref('int_series') }}

),

owners as (

    select
        cluster_id,
        pod_uid,
        max(namespace) as namespace,
        max(owner_kind) as owner_kind,
        max(owner_name) as owner_name
    from series
    where metric = 'kube_pod_owner' and owner_kind not in ('', '<none>')
    group by cluster_id, pod_uid

),

replicasets as (

    select
        cluster_id,
        namespace,
        replicaset_name,
        max(owner_kind) as owner_kind,
        max(owner_name) as owner_name
    from series
    where metric = 'kube_replicaset_owner' and owner_kind not in ('', '<none>')
    group by cluster_id, namespace, replicaset_name

),

-- Samples show the owner, and the owner of a ReplicaSet; further up only the journal sees.
workloads as (

    select
        owners.cluster_id,
        owners.pod_uid,
        coalesce(replicasets.owner_kind, owners.owner_kind) as workload_kind,
        coalesce(replicasets.owner_name, owners.owner_name) as workload_name
    from owners
    left join replicasets
        on
            owners.cluster_id = replicasets.cluster_id
            and owners.namespace = replicasets.namespace
            and owners.owner_kind = 'ReplicaSet'
            and owners.owner_name = replicasets.replicaset_name

)

select * from workloads
