-- The newest hour with a counted node.
select max(hour_started_at) as newest from fct_node_hours
