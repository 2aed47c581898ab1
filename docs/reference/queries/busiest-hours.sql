-- When was the fleet busiest?
--
-- simultaneous_max is the number of cards in use at one instant, over all clusters;
-- sum_of_node_max adds the maxima of the nodes, which can occur at different instants. Numbers
-- from devices are exact. Numbers from capacity and layouts are lower bounds, because the cards of
-- some slices are unknown.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No hour of this period was counted.
select
    hour_started_at,
    simultaneous_max,
    sum_of_node_max,
    how_known,
    gpu_capacity,
    active_worker_nodes
from fct_fleet_hours
where billing_period = $period
order by simultaneous_max desc, sum_of_node_max desc, hour_started_at asc
limit 10
