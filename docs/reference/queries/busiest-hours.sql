-- When was the fleet busiest?
--
-- simultaneous_max is the most cards at one instant, over all clusters; sum_of_node_max adds the
-- nodes' own maxima, which may lie at different instants. By devices they are exact; by capacity and
-- layouts the cards of some slices are not known, and there may have been more.
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
