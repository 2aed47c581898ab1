-- Invariant 4: average ≤ maximum ≤ capacity, and card-seconds ≤ 3600 × maximum.
select *
from {{ ref('fct_node_hours') }}
where
    gpu_count_max > gpu_capacity
    or gpu_seconds > 3600 * gpu_count_max
    or gpu_count_max < 0
