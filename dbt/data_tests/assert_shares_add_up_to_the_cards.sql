-- Invariant 2: running + held + idle + unsold + unhealthy + withdrawn + unmeasured = installed,
-- per node, class and dimension, with ==; more allocated than there is, is a term of its own.
select *
from {{ ref('fct_node_share_hours') }}
where
    installed_share_seconds + overallocated_share_seconds
    <> running_share_seconds
    + held_share_seconds
    + idle_share_seconds
    + unsold_share_seconds
    + unhealthy_share_seconds
    + withdrawn_share_seconds
    + unmeasured_share_seconds
