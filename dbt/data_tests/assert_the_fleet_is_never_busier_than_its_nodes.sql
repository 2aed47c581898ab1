-- Invariant 4: what is active at one instant is never more than the nodes' maxima added up.
select *
from {{ ref('fct_cluster_hours') }}
where
    simultaneous_max > sum_of_node_max
    or sum_of_node_max > gpu_capacity
