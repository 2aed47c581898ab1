-- The newest hour in which any node was counted.
select max(hour_started_at) as newest from fct_node_hours
