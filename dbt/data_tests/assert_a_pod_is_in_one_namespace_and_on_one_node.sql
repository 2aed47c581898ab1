-- Invariant 8: one UID has one namespace and one node in its whole lifetime.
select
    cluster_id,
    pod_uid
from {{ ref('fct_pod_hours') }}
group by cluster_id, pod_uid
having count(distinct namespace) > 1 or count(distinct node_name) > 1
