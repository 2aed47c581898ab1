-- Fault E11: joining prices neither doubles a piece of an allocation nor drops one.
select
    count(*) as piece_count,
    (select count(*) from {{ ref('int_allocations_split_to_hours') }}) as allocated_count
from {{ ref('fct_pod_hours') }}
having count(*) <> (select count(*) from {{ ref('int_allocations_split_to_hours') }})
