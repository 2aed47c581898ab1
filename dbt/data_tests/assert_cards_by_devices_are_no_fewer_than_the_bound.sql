-- Invariant 4: the bound is the smallest number over all layouts, so what really was is no smaller.
select *
from {{ ref('fct_node_hours') }}
where gpu_count_max_by_devices < gpu_count_max or gpu_count_max_by_devices > gpu_capacity
