with

series as (

    select *
    from {{ ref('stg_thanos__series') }}
    where
        metric in ('kube_pod_owner', 'kube_replicaset_owner', 'kube_job_owner')
        and label_invalid = ''

),

pods as (

    select * from {{ ref('int_pods') }}

),

named as (

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
    from series
    where {{ label('labels', 'owner_kind') }} not in ('', '<none>')

),

owners as (

    select
        named.cluster_id,
        pods.pod_number,
        max(named.namespace) as namespace,
        max(named.owner_kind) as owner_kind,
        max(named.owner_name) as owner_name
    from named
    inner join pods
        on
            named.cluster_id = pods.cluster_id
            and named.pod_uid = pods.pod_uid
    where named.metric = 'kube_pod_owner'
    group by named.cluster_id, pods.pod_number

),

owned as (

    select
        cluster_id,
        namespace,
        case when metric = 'kube_replicaset_owner' then 'ReplicaSet' else 'Job' end as owned_kind,
        owned_name,
        max(owner_kind) as owner_kind,
        max(owner_name) as owner_name
    from named
    where metric <> 'kube_pod_owner'
    group by cluster_id, namespace, metric, owned_name

),

-- Samples show the owner, and the owner of a ReplicaSet or Job; further up only the journal sees.
workloads as (

    select
        owners.pod_number,
        coalesce(owned.owner_kind, owners.owner_kind) as workload_kind,
        coalesce(owned.owner_name, owners.owner_name) as workload_name
    from owners
    left join owned
        on
            owners.cluster_id = owned.cluster_id
            and owners.namespace = owned.namespace
            and owners.owner_kind = owned.owned_kind
            and owners.owner_name = owned.owned_name

)

select * from workloads
