with

series as (

    select *
    from {{ ref('stg_thanos__series') }}
    where metric like 'kube_%'

),

-- A series is named by the hash of its labels, so whichever attempt says it, says the same.
distinct_series as (

    select
        cluster_id,
        series_id,
        min(metric) as metric,
        min(labels_sha256) as labels_sha256,
        any_value(labels) as labels
    from series
    group by cluster_id, series_id

),

named as (

    select
        cluster_id,
        series_id,
        metric,
        labels_sha256,
        {{ label('labels', 'uid') }} as pod_uid,
        {{ label('labels', 'namespace') }} as namespace,
        {{ label('labels', 'pod') }} as pod_name,
        {{ label('labels', 'container') }} as container_name,
        {{ label('labels', 'node') }} as node_name,
        {{ label('labels', 'resource') }} as resource,
        {{ label('labels', 'phase') }} as phase,
        {{ label('labels', 'condition') }} as node_condition,
        {{ label('labels', 'status') }} as condition_status,
        {{ label('labels', 'role') }} as node_role,
        {{ label('labels', 'owner_kind') }} as owner_kind,
        {{ label('labels', 'owner_name') }} as owner_name,
        {{ label('labels', 'replicaset') }} as replicaset_name,
        {{ label('labels', 'restart_policy') }} as restart_policy,
        {{ label('labels', 'resourcequota') }} as quota_name,
        {{ label('labels', 'type') }} as quota_type
    from distinct_series

)

select * from named
