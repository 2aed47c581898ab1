-- Invariant 4: the bound is the smallest number over all layouts, so the true number is not
-- smaller. Without further evidence, the number is the bound.
select *
from {{ ref('fct_node_hours') }}
where
    gpu_count_max < gpu_count_max_bound
    or gpu_count_max > gpu_capacity
    or (how_known <> 'by_devices' and gpu_count_max > gpu_count_max_bound)
