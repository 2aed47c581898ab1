-- Namespaces with use whose name had more than one UID.
select
    cluster_id,
    namespace,
    namespace_uid,
    first_seen_at,
    last_seen_at
from marts.dim_namespaces
where
    billing_period = $period
    and (cluster_id, namespace) in (
        select
            cluster_id,
            namespace
        from marts.fct_pod_hours
        where billing_period = $period
    )
qualify count(*) over (partition by cluster_id, namespace) > 1
order by cluster_id, namespace, first_seen_at, namespace_uid
